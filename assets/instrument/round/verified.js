// How one drafted token was verified, in words: the ratio, the random number it was compared with, and the result.

import { FATES } from "../base/fates.js";
import { formatProb, formatRatio } from "../base/format.js";
import { fateAt } from "../base/stages.js";

const RATIO = {
  token: () => "p/q",
  rrsw: (turn) => (turn ? "P/Q" : "p/q"), // after a sibling's rejection both distributions are others
  lenient: () => "p/(l q)",
};

/** {test, outcome}: "p/q .30, u .81" and "rejected"; null while the node is not verified, or never was. */
export function verifiedWords(round, known, node) {
  if (!known.result && !known.decided.has(node.id)) return null;
  for (const { rule, children } of round.decisions) {
    const turn = children.findIndex((child) => child.node === node.id);
    if (turn < 0) continue;
    const fate = fateAt(round, known, node);
    return { test: testWords(rule, children[turn], turn), outcome: FATES[fate].glyph ? FATES[fate].word : "" };
  }
  return null;
}

/** Rules without a random number for each child have no such test. */
function testWords(rule, child, turn) {
  const u = `u ${formatProb(child.uniform)}`;
  if (rule === "block") return `h ${formatProb(child.threshold)}, ${u}`;
  if (rule === "lenient") return `${RATIO.lenient()} ${formatRatio(child.threshold)}, ${u}`;
  return RATIO[rule] ? `${RATIO[rule](turn)} ${formatRatio(child.p / child.q)}, ${u}` : "";
}

/** What the letters beneath the nodes mean; empty where none are shown. */
export function verifiedLegend(round) {
  const rules = new Set(round.decisions.filter((d) => d.children.length).map((d) => d.rule));
  if (rules.has("block")) return "the accepted block may end here if the random number u < h";
  if (rules.has("rrsw"))
    return "accepted if the random number u < p/q, target over draft (P/Q after a rejected sibling)";
  if (rules.has("token")) return "accepted if the random number u < p/q, target over draft";
  return "";
}
