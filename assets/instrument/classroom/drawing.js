// What a projector and a phone draw alike: the guesses of a round, and what became of them.

import { h } from "../base/dom.js";

const GLYPHS = { accepted: "✓", rejected: "✗", correction: "↻", bonus: "+", unvisited: "·", never_accepted: "·" };
const WORDS = {
  accepted: "accepted",
  rejected: "rejected",
  correction: "the target's own instead",
  bonus: "bonus of the target",
  unvisited: "never judged",
  never_accepted: "never judged",
};

/** .5 for 0.5, 1 for 1. */
export const short = (value) =>
  value
    .toFixed(2)
    .replace(/^0/, "")
    .replace(/^1\.00$/, "1");

/** The guesses in order. Before the reveal they have no fate, and stand in the draft's colour. */
export function guessesOf(guesses) {
  return h(
    "ol",
    { class: "guesses", "aria-label": "Guesses of the draft" },
    ...guesses.map((guess) => h("li", { class: guess.fate ?? "drafted" }, tokenOf(guess), ...numbersOf(guess))),
  );
}

/** What became of a round that a class drafted. */
export const keptOf = ({ kept }) => {
  const last = kept.at(-1);
  return last ? `${last} of your tokens ${last === 1 ? "was" : "were"} kept.` : "None of your tokens was kept.";
};

/** A class's tree: a list in lists, from left to right. */
export function treeOf(nodes, last) {
  const below = (parent) => {
    const children = nodes.map((node, n) => [node, n]).filter(([node]) => node.parent === parent);
    return children.length ? h("ul", {}, ...children.map(([node, n]) => h("li", {}, branchOf(node), below(n)))) : null;
  };
  return h(
    "div",
    { class: "tree" },
    below(-1),
    h("p", { class: `guesses ${last.fate}` }, h("span", { class: last.fate }, "then the target: ", tokenOf(last))),
  );
}

const branchOf = (node) =>
  h(
    "span",
    { class: `branch ${node.fate}` },
    tokenOf(node),
    h("small", { text: `${node.votes} proposed  p ${short(node.p)}` }),
  );

function tokenOf({ text, fate }) {
  const glyph = fate && h("span", { class: "glyph", "aria-hidden": "true", text: GLYPHS[fate] });
  return h("span", { class: "token" }, text, glyph, fate && h("span", { class: "spoken", text: `, ${WORDS[fate]}` }));
}

function numbersOf({ fate, p, q, threshold, u }) {
  if (!fate) return [];
  if (fate === "correction" || fate === "bonus" || fate === "unvisited") return [line(WORDS[fate])];
  const known = [
    p !== null && q !== null ? `p ${short(p)}  q ${short(q)}` : null,
    threshold !== null && u !== null ? `ratio ${short(threshold)}  u ${short(u)}` : null,
  ];
  return known.filter(Boolean).map(line);
}

const line = (text) => h("small", { text });

/** A post of JSON; the answer, or an error whose message is the server's sentence and whose status is in `status`. */
export async function post(path, body, headers = {}) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const answer = response.status === 204 ? {} : await response.json().catch(() => ({}));
  if (!response.ok)
    throw Object.assign(new Error(answer.error || "The server did not answer."), { status: response.status });
  return answer;
}

/** Keeps what a reload of this tab must find again; a browser that keeps nothing does without. */
export const kept = {
  read(name) {
    try {
      return JSON.parse(sessionStorage.getItem(name));
    } catch {
      return null;
    }
  },
  write(name, value) {
    try {
      sessionStorage.setItem(name, JSON.stringify(value));
    } catch {
      // private windows of some browsers keep nothing
    }
  },
};
