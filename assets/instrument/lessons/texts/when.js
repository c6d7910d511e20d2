// Lesson: short answers and full batches.

import { counted } from "../../base/format.js";
import { batchPicture, belowWords, byBatch, byLength, forwardsAt, lengthPicture } from "../sweep.js";
import { laneTitle } from "../../run/titles.js";
import { paysOf, paysPicture, textsOf } from "../pays.js";
import { times } from "../telling.js";

/** What drafted rows cost at the smallest and at the largest batch. */
function rowWords(sweep, batches) {
  const gamma = Math.max(...sweep.map((r) => r.gamma || 0));
  const [few, many] = [batches[0], batches[batches.length - 1]].map((batch) => ({
    batch,
    ...forwardsAt(sweep, batch, gamma),
  }));
  const ratio = ({ plain, drafting }) => drafting.ms / plain.ms;
  const words = (at) =>
    `at batch ${at.batch} a forward over ${counted(at.drafting.rows, "row")} took ${times(ratio(at))} as long as plain's over ${at.plain.rows}`;
  const so =
    ratio(many) > ratio(few)
      ? "The more sequences share a forward, the less spare capacity it has for drafts."
      : "On this pair and machine rows stayed as cheap; on others, large batches leave no spare capacity for drafts.";
  return `Why the batch matters: speculation needs [[rows]] that cost almost nothing. With γ ${gamma}, ${words(few)}; ${words(many)}. ${so}`;
}

/** The best and the worst of the recorded lanes, in words. */
function paysWords(whole) {
  const all = paysOf(whole).filter(({ costs }) => costs);
  if (all.length < 2) return "";
  const sorted = [...all].sort((a, b) => b.costs.measured - a.costs.measured);
  const words = ({ text, lane, costs }) =>
    `${laneTitle(lane)} on ${text} ran ${times(costs.measured)} as fast as plain decoding`;
  return `Best here: ${words(sorted[0])}. Worst: ${words(sorted[sorted.length - 1])}.`;
}

function steps(whole) {
  const [store] = textsOf(whole);
  const lengths = byLength(store);
  const series = byBatch(store.sweep);
  const [first, last] = [lengths[0], lengths[lengths.length - 1]];
  return [
    {
      show: "none",
      figure: paysPicture,
      say: `The same target on two texts, with a cheap draft and with a costly one. Drafting pays where the draft is cheap and often accepted; with a costly draft or an unpredictable text it does not. ${paysWords(whole)}`,
    },
    {
      show: "none",
      figure: (all) => lengthPicture(textsOf(all)[0]),
      say: `An answer may be too short. Both models process the prompt first, and the first [[round]] drafts before it verifies: after one token this run was ${times(first.y)} as fast as plain decoding, after ${lengths.length} tokens ${times(last.y)}. It was ${belowWords(lengths, "token")}.`,
    },
    {
      show: "none",
      figure: batchPicture,
      say: `A batch may be full. Sequences decoded together share each forward, and their drafts are additional rows. ${series.map(({ name, points }) => `With ${name} this pair was ${belowWords(points, "batch")}`).join(". ")}.`,
    },
    {
      show: "none",
      figure: batchPicture,
      say: rowWords(
        store.sweep,
        series[0].points.map((p) => p.x),
      ),
    },
  ];
}

export const lesson = {
  title: "When it does not pay",
  about: "costly drafts, short answers, full batches",
  trace: "when",
  steps,
  last: { show: "none", figure: batchPicture },
  question: () =>
    "Two servers run this pair: one serves a single user, one decodes as many sequences at once as it can. Which of them should draft, and how much?",
  answer: (store) => {
    const speeds = byBatch(store.sweep).map(({ name, points }) => {
      const [first, last] = [points[0], points[points.length - 1]];
      return `${name} was ${times(first.y)} as fast as plain decoding at batch ${first.x} and ${times(last.y)} at batch ${last.x}`;
    });
    return `What their own measurements say. On the machine that recorded this lesson, ${speeds.join("; ")}. Other machines differ: draftscope bench --batch measures yours.`;
  },
  attempt: {
    words: "Ask for eight tokens and draft as many: how much of the speedup is left?",
    controls: { drafter: "draft", gamma: 8, temperature: 0, max_new_tokens: 8 },
  },
};
