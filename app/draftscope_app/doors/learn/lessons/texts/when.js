// Lesson: costly drafts, stored weights, what a large target changes, short answers and full batches.

import { counted, formatFigure, formatMs, formatProb, median } from "../../../../base/format.js";
import { batchPicture, belowWords, byBatch, byLength, forwardsAt, lengthPicture } from "../sweep.js";
import { laneTitle } from "../../../../run/titles.js";
import { costsOf } from "../../../../base/numbers.js";
import { draftLane, plainLane, temperatureOf } from "../../../../base/store.js";
import { modelsPicture, paysOf, paysPicture, textsOf } from "../pays.js";
import { drafting, times } from "../telling.js";

/** What drafted rows cost at the smallest and at the largest batch. */
function rowWords(sweep, batches) {
  const gamma = Math.max(...sweep.map((r) => r.gamma || 0));
  const [few, many] = [batches[0], batches[batches.length - 1]].map((batch) => ({
    batch,
    ...forwardsAt(sweep, batch, gamma),
  }));
  const ratio = (at) => at.drafting.ms / at.plain.ms;
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

const targetOf = ({ lanes }) => lanes[0].start.models[0];

/** A race's drafting lane by this drafter, with what it cost and gained; null where too little was decoded. */
function gained(race, drafter) {
  const lane = race && drafting(race, drafter);
  const costs = lane && costsOf(lane, plainLane(race));
  return costs ? { race, lane, costs, target: targetOf(race) } : null;
}

const pays = ({ costs }) =>
  costs.measured > 1
    ? `ran ${times(costs.measured)} as fast as plain decoding`
    : `reached ${times(costs.measured)} its speed`;

/** Which of two gains more, and what of their rounds says why. */
function sizeWords(small, large) {
  if (Math.max(small.measured / large.measured, large.measured / small.measured) < 1.05)
    return "Both gain about as much.";
  const more = large.measured > small.measured;
  const why = [
    large.c < small.c === more && `a draft forward is a ${more ? "smaller" : "larger"} part of a plain round`,
    large.tau > small.tau === more && `a round writes ${more ? "more" : "fewer"} tokens`,
  ].filter(Boolean);
  const words = why.length ? ` because ${why.join(" and ")}` : "";
  return `The larger target gains ${more ? "more" : "less"}${words}.`;
}

/** The same kind of drafter, a small model, for a small target and for a large one, on the same text. */
function largeStep(races, ofTarget) {
  const smaller = ofTarget.find((race) => drafting(race, "draft"));
  const other = races.find((race) => smaller && targetOf(race).name !== targetOf(smaller).name);
  const [small, large] = [gained(smaller, "draft"), gained(other, "draft")];
  if (!small || !large) return null;
  const size = large.target.parameters / small.target.parameters;
  return {
    show: "none",
    figure: () => modelsPicture([smaller, other], ["plain", "draft"]),
    say: `Would a larger target gain more? Here a draft model drafts for ${small.target.name}, and another one for ${large.target.name}, which has ${times(size)} as many parameters, on the same text. A plain round takes ${formatMs(small.costs.one)} and ${formatMs(large.costs.one)}, a draft forward ${formatProb(small.costs.c)} and ${formatProb(large.costs.c)} of it. The small pair ${pays(small)}; the large one ${pays(large)}. ${sizeWords(small.costs, large.costs)}`,
  };
}

/** The same target with its weights as the file stores them: plain decoding is faster, so there is less to gain. */
function storedStep(races, first) {
  const stored = races.find(
    (race) => targetOf(race).name === targetOf(first).name && targetOf(race).weights !== targetOf(first).weights,
  );
  const [wide, narrow] = [gained(first, "eagle3"), gained(stored, "eagle3")];
  if (!wide || !narrow) return null;
  const guesses = ({ lane }) => counted(lane.start.settings.gamma, "guess", "guesses");
  return {
    show: "none",
    figure: () => modelsPicture([first, stored], ["plain", "eagle3"]),
    say: `A faster baseline leaves less to gain. The same model and text with its ${narrow.target.weights}: a plain round takes ${formatMs(narrow.costs.one)} instead of ${formatMs(wide.costs.one)}, and a forward of the head ${formatProb(narrow.costs.c)} of it instead of ${formatProb(wide.costs.c)}. With ${guesses(narrow)} a round the head ${pays(narrow)}; with the wide weights and ${guesses(wide)} it ${pays(wide)}.`,
  };
}

function steps(whole) {
  const races = textsOf(whole);
  const [store] = races;
  const same = (race) => ["name", "weights"].every((what) => targetOf(race)[what] === targetOf(store)[what]);
  const ofTarget = races.filter(same);
  const small = ofTarget.filter((race) => drafting(race, "early-exit"));
  const lengths = byLength(store);
  const series = byBatch(store.sweep);
  const [first, last] = [lengths[0], lengths[lengths.length - 1]];
  return [
    {
      show: "none",
      figure: () => paysPicture(small),
      say: `The same target on two texts, with a cheap draft and with a costly one. Drafting pays where the draft is cheap and often accepted; with a costly draft or an unpredictable text it does not. ${paysWords(small)}`,
    },
    storedStep(races, store),
    largeStep(races, ofTarget),
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
  about: "costly drafts, stored weights, larger models, short answers, full batches",
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
    controls: { drafter: "eagle3", gamma: 8, temperature: 0, max_new_tokens: 8 },
  },
};
