// Where a greedy lane leaves plain decoding's text, and whether a tie of the target's logits explains it.
//
// Pure. Both lanes take the target's best token. In 16 bits two right forwards of the same token may round differently,
// so that a near tie falls to the one or the other; a larger gap is no rounding.

import { compareTokens, temperatureOf } from "../base/store.js";

const TIED = { bfloat16: 0.1, float16: 0.02, float32: 0.001 }; // logits this close may change order by rounding

/** {index, gap, tie} of the first token that differs among those shown at `shown` tokens of both; null if none does. */
export function partingOf(lane, plain, shown = Infinity) {
  if (!plain || lane === plain || lane.start?.fork || temperatureOf(lane) > 0 || temperatureOf(plain) > 0) return null;
  const { first } = compareTokens(lane, plain);
  if (first < 0 || first >= Math.min(shown, lane.tokens.length, plain.tokens.length)) return null;
  const gaps = [lane, plain].map((each) => gapAt(each, first)).filter((gap) => Number.isFinite(gap));
  const gap = gaps.length ? Math.min(...gaps) : NaN;
  return { index: first, gap, tie: gap <= (TIED[lane.start?.dtype] ?? TIED.float32) };
}

/** How close the target's two best tokens were where the lane wrote its token `index`. */
function gapAt(lane, index) {
  const round = lane.rounds[lane.tokens[index].round];
  const decision = round.decisions[index - round.firstToken] || round.last;
  return decision && Number.isFinite(decision.gap) ? decision.gap : NaN;
}

/** The badge beside the lane's text. */
export const partingBadge = ({ index, gap, tie }) =>
  `differs from token ${index + 1}${Number.isFinite(gap) ? `: ${tie ? "tie of" : "logits"} ${gap.toFixed(2)}${tie ? "" : " apart"}` : ""}`;

/** What it means. */
export const partingWords = ({ gap, tie }) =>
  tie
    ? `The target's two best tokens are ${gap.toFixed(2)} apart in their logits: rounding alone decides which one is written.`
    : "Plain decoding wrote another token, and the logits are further apart than rounding explains. Check this pair and drafter.";
