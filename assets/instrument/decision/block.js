// A block's decision: the chain is verified as a whole, and each position says only whether the block may end there.
//
// With weight w (the running min(1, w p/q)) and chance h, position i may be the end if u < h. The last such position is
// the end, and all before it are accepted, whatever their own u said.

import { formatProb, formatRatio, visible } from "../base/format.js";
import { nodeOf } from "../base/store.js";
import { quoted } from "../base/templates.js";
import { probabilityPicture } from "../draw/bars.js";

import { html, nothing } from "../vendor/lit-html.js";
import { MANY, lastHere, marksOf, note, outcomeLine, uniformLine } from "./lines.js";

const MEANT =
  "h: the chance that the accepted block may end there. The last position with u < h is the end; everything before it is accepted too.";
const BELOW =
  "Below: p and q at this position. w is the running min(1, w p/q). h is what the draft still owes the target here, so it is 1 where q is nowhere above w p.";

export function blockForm(view, actions) {
  const { round, decision, slot, step, known } = view;
  const positions = positionsOf(round);
  const lines = positions.map((at) =>
    uniformLine({
      label: `${at.number} ${at.name}`,
      child: at.child,
      decided: known.result || known.decided.has(at.child.node),
      fate: known.result ? (at.kept ? "accepted" : "rejected") : "",
      chosen: at.slot === slot,
      words: `w = ${weightWords(at)}, h ${formatProb(at.child.threshold)}`,
      result: resultWords(at, known),
      open: () => actions.open(at.slot, at.child.node),
    }),
  );
  const correction = html`${quoted(visible(round.last.raw))} was sampled from the block's residual distribution, norm((w
  × p − q)+).`;
  return html`
    ${note(MEANT)}
    <div class="uniforms ${lines.length > MANY ? "many" : ""}">${lines}</div>
    ${known.result ? outcomeLine(endWords(positions)) : nothing}
    ${probabilityPicture(decision.distributions[step], marksOf(view), true, lines.length)}
    ${lastHere(view) && round.last.kind === "correction" ? outcomeLine(correction, "correction") : nothing}
    <details>
      <summary>What w and h are</summary>
      ${note(BELOW)}
    </details>
  `;
}

/** The chain's positions: {number, name, slot, child, before (the weight so far), kept}. */
function positionsOf(round) {
  const positions = [];
  for (const { rule, slot, children } of round.decisions) {
    if (rule !== "block") continue;
    for (const child of children) {
      const before = positions.length ? positions[positions.length - 1].child.weight : 1;
      const node = nodeOf(round, child.node);
      positions.push({
        number: positions.length + 1,
        name: visible(node.raw),
        slot,
        child,
        before,
        kept: node.fate === "accepted",
      });
    }
  }
  return positions;
}

const weightWords = ({ before, child }) =>
  `min(1, ${formatProb(before)} × ${formatRatio(child.p / child.q)}) = ${formatProb(child.weight)}`;

function resultWords({ child, kept }, known) {
  const may = child.passed ? "may end here" : "may not end here";
  if (!known.result || child.passed === kept) return may;
  return `${may}, but a later position is the end: accepted`;
}

function endWords(positions) {
  const end = positions.filter((at) => at.child.passed).pop();
  if (!end) return "The block may end nowhere: all of it is rejected.";
  const rescued = positions.filter((at) => at.kept && !at.child.passed).length;
  const whole = end.number === 1 ? "1 token is accepted" : `${end.number} tokens are accepted`;
  return `The last position with u < h is ${end.number}, so ${whole}${rescued ? `, ${rescued} of them although the block could not have ended there` : ""}.`;
}
