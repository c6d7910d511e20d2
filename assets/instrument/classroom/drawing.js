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
const short = (value) =>
  value > 0 && value < 0.005
    ? "<.01"
    : value
        .toFixed(2)
        .replace(/^0/, "")
        .replace(/^1\.00$/, "1");

/** The guesses in order, or as the tree that they are. Before the reveal they have no fate, and the draft's colour. */
export function guessesOf(guesses) {
  const nodes = guesses.filter(({ fate }) => fate !== "correction" && fate !== "bonus");
  if (nodes.some(({ parent }, n) => (parent ?? n - 1) !== n - 1)) return treeOf(nodes, guesses[nodes.length]);
  return h(
    "ol.guesses",
    { "aria-label": "Guesses of the draft" },
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
    return children.length ? h("ul", ...children.map(([node, n]) => h("li", branchOf(node), below(n)))) : null;
  };
  return h(
    "div.tree",
    below(-1),
    last &&
      h("p", { class: `guesses ${last.fate}` }, h("span", { class: last.fate }, "then the target: ", tokenOf(last))),
  );
}

const branchOf = (node) =>
  h(
    "span",
    { class: `branch ${node.fate ?? "drafted"}` },
    tokenOf(node),
    node.votes === undefined ? numbersOf(node) : h("small", `${node.votes} proposed  p ${short(node.p)}`),
  );

/** A step of a lesson in words and a picture for any width: guesses, bars, or a table. */
export const stepOf = ({ words, guesses, bars, rows }) =>
  [
    h("p.said", words),
    guesses.length > 0 && guessesOf(guesses),
    bars.length > 0 &&
      h(
        "ul.bars",
        ...bars.map(({ name, value, part }) =>
          h("li", h("b", name), h("span", { style: { width: `${100 * part}%` } }), h("small", value)),
        ),
      ),
    rows.length > 0 &&
      h("table", ...rows.map((cells, n) => h("tr", ...cells.map((text) => h(n ? "td" : "th", { text }))))),
  ].filter(Boolean);

function tokenOf({ text, fate }) {
  const glyph = fate && h("span.glyph", { "aria-hidden": "true" }, GLYPHS[fate]);
  return h("span.token", text, glyph, fate && h("span.spoken", `, ${WORDS[fate]}`));
}

function numbersOf({ fate, p, q, threshold, u }) {
  if (fate === "correction" || fate === "bonus" || fate === "unvisited") return [line(WORDS[fate])];
  const known = [
    isNumber(p) && isNumber(q) ? `p ${short(p)}  q ${short(q)}` : null,
    isNumber(threshold) && isNumber(u) ? `ratio ${short(threshold)}  u ${short(u)}` : null,
  ];
  return known.filter(Boolean).map(line);
}

const isNumber = (value) => typeof value === "number";
const line = (text) => h("small", text);
