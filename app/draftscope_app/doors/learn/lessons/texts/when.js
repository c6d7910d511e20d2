// Lesson: costly drafts, what a large target changes, short answers and full batches.

import { counted, formatFigure, formatMs, formatProb, median } from "../../../../base/format.js";
import { batchPicture, belowWords, byBatch, byLength, forwardsAt, lengthPicture } from "../sweep.js";
import { laneTitle } from "../../../../run/titles.js";
import { costsOf } from "../../../../base/numbers.js";
import { draftLane, plainLane, temperatureOf } from "../../../../base/store.js";
import { largePicture, paysOf, paysPicture, targetOf, textsOf } from "../pays.js";
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

/** Why the sweep's speed with one text is not that of the first race: it was sampled otherwise. */
function sampledWords({ lanes, sweep }) {
  const lane = draftLane({ lanes });
  const [raced, swept] = [temperatureOf(lane), sweep[0].temperature];
  const single = sweep.filter((run) => run.batch === 1 && run.gamma === lane.start.settings.gamma);
  if (raced === swept || !single.length) return "";
  const { tau, measured } = costsOf(lane, plainLane({ lanes }));
  const perRound = median(single.map((run) => run.tokens / run.rounds));
  return ` The texts of a batch differ because they were sampled at T ${swept}, and with one text a round wrote ${formatFigure(perRound)} tokens. The race on the first text was at T ${raced}: a round wrote ${formatFigure(tau)} tokens, and the chain ran ${times(measured)} as fast as plain decoding.`;
}

/** The best and the worst of the lanes of these races, in words. */
function paysWords(races) {
  const all = paysOf(races).filter(({ costs }) => costs);
  if (all.length < 2) return "";
  const sorted = [...all].sort((a, b) => b.costs.measured - a.costs.measured);
  const words = ({ text, lane, costs }) =>
    `${laneTitle(lane)} on ${text} ran ${times(costs.measured)} as fast as plain decoding`;
  return `Best here: ${words(sorted[0])}. Worst: ${words(sorted[sorted.length - 1])}.`;
}

/** The first race, and the same with the costs of a large pair; null where that was not recorded. */
function pairOfRaces(races) {
  const small = races.find((race) => !targetOf(race));
  const large = races.find((race) => targetOf(race));
  return small && large ? { small, large } : null;
}

/** Why the larger pair's speedup is another, or is not. */
function sizeWords(before, after) {
  const about = (a, b, most) => Math.max(a / b, b / a) < most;
  if (about(before.measured, after.measured, 1.1) && about(before.c, after.c, 1.5))
    return " The speedup is about the same: not the size of the target decides, but what a draft forward costs beside its forward.";
  if (after.measured > before.measured && after.c < before.c)
    return " The larger target gains more because a draft forward is a smaller part of its round.";
  return "";
}

/** What a larger target changes: the same tokens and drafts, other costs. */
function largeStep(races) {
  const pair = pairOfRaces(races);
  if (!pair) return null;
  const [before, after] = [pair.small, pair.large].map((race) => {
    const lane = draftLane(race);
    return { lane, plain: plainLane(race), costs: costsOf(lane, plainLane(race)) };
  });
  if (!before.costs || !after.costs) return null;
  const [target, draft] = after.lane.start.models.map((model) => model.emulates);
  const pays = ({ costs }) =>
    costs.measured > 1
      ? `ran ${times(costs.measured)} as fast as plain decoding`
      : `reached ${times(costs.measured)} its speed`;
  return {
    show: "none",
    figure: () => largePicture(pair.small, pair.large),
    say: `Would a larger target gain more? Here the same two models race on the first text twice: as they are, and with an [[emulated size]], which gives the target the costs of ${target} and the draft those of ${draft}. Tokens and drafts are the same, and so is the share that was accepted. A plain round takes ${formatMs(after.costs.one)} instead of ${formatMs(before.costs.one)}, and a draft forward ${formatProb(after.costs.c)} of it instead of ${formatProb(before.costs.c)}. As they are, the chain ${pays(before)}; with the large pair's costs it ${pays(after)}.${sizeWords(before.costs, after.costs)}`,
  };
}

function steps(whole) {
  const races = textsOf(whole);
  const small = races.filter((race) => !targetOf(race));
  const [store] = small;
  const lengths = byLength(store);
  const series = byBatch(store.sweep);
  const [first, last] = [lengths[0], lengths[lengths.length - 1]];
  return [
    {
      show: "none",
      figure: () => paysPicture(small),
      say: `The same target on two texts, with a cheap draft and with a costly one. Drafting pays where the draft is cheap and often accepted; with a costly draft or an unpredictable text it does not. ${paysWords(small)}`,
    },
    largeStep(races),
    {
      show: "none",
      figure: () => lengthPicture(store),
      say: `An answer may be too short. Both models process the prompt first, and the first [[round]] drafts before it verifies: after one token this run was ${times(first.y)} as fast as plain decoding, after ${lengths.length} tokens ${times(last.y)}. It was ${belowWords(lengths, "token")}.`,
    },
    {
      show: "none",
      figure: batchPicture,
      say: `A batch may be full. Sequences decoded together share each forward, and their drafts are additional rows. ${series.map(({ name, points }) => `With ${name} this pair was ${belowWords(points, "batch")}`).join(". ")}.${sampledWords(store)}`,
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
  about: "costly drafts, larger models, short answers, full batches",
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
