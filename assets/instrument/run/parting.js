// How far a greedy lane's text is plain decoding's, where it leaves it, and whether a tie of the target's logits
// explains it.
//
// Pure. Both lanes take the target's best token. In 16 bits two right forwards of the same token may round differently,
// so that a near tie falls to the one or the other. Whether it is one is the engine's to say, which measures after the
// race what the target's rounding can move (engine/draftscope/measure/ties.py); until then nothing is called a tie.

import { compareTokens, isServer, temperatureOf } from "../base/store.js";

/** {index, gap, tie, bound} of the first token that differs among those shown at `shown` tokens of both; null if none does. */
export function partingOf(lane, plain, shown = Infinity) {
  if (!comparable(lane, plain)) return null;
  const { first } = compareTokens(lane, plain);
  if (first < 0 || first >= Math.min(shown, lane.tokens.length, plain.tokens.length)) return null;
  const { parted } = lane;
  if (isServer(lane)) return { index: first, gap: NaN, tie: false, bound: null, server: plain.name };
  if (parted && parted.token === first) return { index: first, gap: parted.gap, tie: parted.tie, bound: parted.bound };
  const gaps = [lane, plain].map((either) => gapAt(either, first)).filter((gap) => Number.isFinite(gap));
  const gap = gaps.length ? Math.min(...gaps) : NaN;
  return { index: first, gap, tie: false, bound: null };
}

/** Both are greedy and begin with the prompt, and the ids of their tokens are known: some servers send none. */
function comparable(lane, plain) {
  if (!plain || lane === plain || lane.start?.fork || temperatureOf(lane) > 0 || temperatureOf(plain) > 0) return false;
  return [lane, plain].every((either) => either.tokens.every(({ id }) => id >= 0));
}

/** How many of the first `shown` tokens are plain decoding's, where none differs; `ended` once both have shown all that
 *  they will. */
export function equalWords(lane, plain, shown, ended) {
  if (!shown || !comparable(lane, plain) || partingOf(lane, plain, shown)) return "";
  const length = ended ? Math.max(lane.tokens.length, plain.tokens.length) : shown;
  return `equal${ended ? "" : " so far"}: ${shown} of ${length}`;
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
export const partingWords = ({ gap, tie, bound, server }) =>
  server
    ? `${server} wrote another token. Both are greedy; an audit tells whether rounding explains it.`
    : bound === null || bound === undefined
      ? "Plain decoding wrote another token. Whether rounding explains it is measured once the race is over."
      : tie
        ? `The target's logits of the two tokens are ${gap.toFixed(2)} apart in fp32, and rounding moves such logits by up to ${bound.toFixed(2)} (measured): a tie.`
        : `Plain decoding wrote another token, and the target's fp32 logits are further apart than rounding explains (${bound.toFixed(2)}, measured). Check this pair and drafter.`;
