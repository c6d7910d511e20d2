// The lossy rules' own forms: what is compared with what, and that the law that is written is not the target's.
//
// Leniency tosses a coin against min(1, p / (l q)); typical acceptance and top-k toss none: p of the drafted token is held
// against a number. engine/draftscope/rules.py states all three.

import { h } from "../base/dom.js";
import { formatProb, shorten, visible } from "../base/format.js";
import { pick, residual } from "./distributions.js";
import { probabilityPicture } from "../draw/bars.js";

/** A contest under a lossy rule. `tools`: the contest card's own helpers. */
export function lossyForm(view, tools) {
  const { contest, known, lane, round } = view;
  const laws = contest.distributions[0];
  const child = contest.children[0];
  const node = round.nodes.find((n) => n.id === child.node);
  const told = known.verdict || known.judged.has(child.node);
  const label = visible(node.raw);
  const l = lane.start?.settings?.lenience;
  const line =
    contest.rule === "lenient"
      ? tools.coinLine({
          label,
          child,
          told,
          chosen: false,
          words: `min(1, p / (l q)) = ${formatProb(child.p)} / (${l ?? "l"} × ${formatProb(child.q)}) → ${formatProb(child.threshold)}`,
          open: () => {},
        })
      : comparison(contest.rule, child, label, told, Math.max(...laws.p));
  return [
    h("div", { class: "coins" }, line),
    ...ending(view, tools),
    ...probabilityPicture(laws, tools.marksOf(view), contest.rule === "lenient"),
    h("p", { class: "sum", text: meaning(contest.rule, lane) }),
  ];
}

/** p of the drafted token on a ruler of p, and the number that it has to reach. */
function comparison(rule, child, label, told, most) {
  const ruler = Math.max(most, child.threshold, 1e-9);
  const sign = rule === "typical" ? (child.passed ? ">" : "≤") : child.passed ? "≥" : "<";
  const asked = rule === "typical" ? "the threshold" : "the k-th likeliest";
  const words = told
    ? `p ${formatProb(child.p)} ${sign} ${formatProb(child.threshold)}, ${asked}`
    : `p against ${formatProb(child.threshold)}, ${asked}`;
  const fate = !told ? "" : child.passed ? "accepted" : "rejected";
  return h(
    "div",
    { class: `coin-row compare ${fate}`, role: "img", "aria-label": `${label}: ${words}${told ? `, ${fate}` : ""}` },
    h("span", { class: "verdict", text: told ? (child.passed ? "✓" : "✗") : "?" }),
    h("span", { class: "token", text: shorten(label, 12) }),
    h(
      "span",
      { class: "coin-track" },
      told ? h("i", { class: "mass", style: { width: `${(100 * child.p) / ruler}%` } }) : null,
      h("i", { class: "needed", style: { left: `${(100 * child.threshold) / ruler}%` } }),
    ),
    h("span", { class: "words", text: words }),
  );
}

function ending(view, tools) {
  const { round, contest } = view;
  if (!tools.lastHere(view)) return [];
  const name = visible(round.last.raw);
  const from = contest.rule === "lenient" ? "the residual, what p holds above q" : "p itself, not from a residual";
  return [
    h(
      "p",
      { class: "outcome" },
      h("span", { class: "glyph correction", text: "↻", "aria-hidden": "true" }),
      ` It was rejected: ${name} is drawn from ${from}.`,
    ),
  ];
}

function meaning(rule, lane) {
  const s = lane.start?.settings || {};
  if (rule === "lenient")
    return `Lossy, l = ${s.lenience ?? "?"}: a draft stands up to 1/l times as readily as under the token rule, and no token is written more than 1/l times as often as p has it. The text's law is not p.`;
  if (rule === "typical")
    return "Lossy: H(p) is p's entropy in nats; the flatter p, the less a token has to weigh. What the draft thinks of it plays no part. The text's law is not p.";
  return `Lossy, k = ${s.agreement ?? "?"}: how likely p holds a token matters only for its place among the others. The text's law is not p.`;
}

// The same rules over recorded laws, small enough to be tried.

/**
 * With which probability each token of the lumped laws is accepted; null where the record does not say: tokens that it
 * left out are judged together, and under typical and top-k they must all lie below what is asked.
 */
export function lossyAccept(contest, lumped, lenience) {
  const { p, q } = lumped;
  if (contest.rule === "lenient")
    return lenience ? p.map((x, i) => (q[i] > 0 ? Math.min(1, x / (lenience * q[i])) : 1)) : null;
  const asked = contest.children[0].threshold;
  const laws = contest.distributions[0];
  const least = Math.min(...[...laws.p].sort((a, b) => b - a).slice(0, 32));
  if (laws.rest_p > 1e-9 && (contest.rule === "typical" ? least > asked : least >= asked)) return null;
  return p.map((x, i) => Number(i < laws.ids.length && (contest.rule === "typical" ? x > asked : x >= asked && x > 0)));
}

/** One token by a lossy rule: drafted from q, kept with `accept`, else drawn from what the rule draws from. */
export function lossyOnce({ q }, accept, last, coin) {
  const token = pick(q, coin());
  return coin() < accept[token] ? token : pick(last, coin());
}

/** What the last token is drawn from: leniency keeps the token rule's residual, the others draw from p. */
export const lossyLast = (rule, { p, q }) => (rule === "lenient" ? residual(p, q) : p);
