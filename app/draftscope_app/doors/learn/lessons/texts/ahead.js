// Lesson: copies, the target's own guesses, and drafts made before they are needed.

import { counted, formatFigure, formatMs, median } from "../../../../base/format.js";
import { costsOf, sum } from "../../../../base/numbers.js";
import { plainLane } from "../../../../base/store.js";
import { copiesOf, copyPicture } from "../figures.js";
import { prefetchPicture, prefetchedOf } from "../propose.js";
import { atEnd, atStage, drafting, listed, perRound, times } from "../telling.js";

const longest = (lane) =>
  copiesOf(lane)
    .filter((c) => !c.round.cut)
    .sort((a, b) => b.accepted - a.accepted || b.length - a.length)[0];
const width = (lane) => sum(lane.rounds.map((r) => r.width)) / lane.rounds.length;
const guesses = (round) => round.nodes.filter((n) => n.fate === "never_accepted").length;

const face = (name, round, lane) => (host) => {
  host.round.show(name);
  atStage(host, lane, round, "commit");
};

function copySteps(lane) {
  const copies = copiesOf(lane);
  const best = longest(lane);
  return [
    {
      show: "none",
      figure: () => copyPicture(lane),
      say: `A draft without a second model: find where the last tokens occurred before and copy what followed. Each arc leads from a draft to its source; ${copies.filter((c) => c.accepted).length} of ${copies.length} copies had at least one token accepted.`,
    },
    best && {
      show: "tree decision",
      act: face("tree", best.round, lane),
      say: [
        best.length > 1 ? `Here the last ${best.length} tokens` : "Here the last token",
        ` had occurred before token ${best.from}, and what followed there is the draft: `,
        listed(best.round.nodes.map((n) => n.raw)),
        `. ${best.accepted} of ${best.round.drafted} were accepted.`,
      ],
    },
  ];
}

function guessStep(lane) {
  const round = lane.rounds.find((r) => !r.cut && guesses(r));
  return (
    round && {
      show: "tree",
      act: face("mask", round, lane),
      say: `The target can also guess for itself. Of the ${round.width} [[rows]] of this forward, ${guesses(round)} are [[guess rows]]: guesses at later tokens that are never accepted. The n-grams they form are stored and become drafts in later rounds.`,
    }
  );
}

/** The third way: drafting while the target verifies. */
function preparedSteps(lane, plain) {
  const all = prefetchedOf(lane);
  if (!all.length) return [];
  const [hits, misses] = [true, false].map((hit) => all.filter(({ note }) => note.hit === hit));
  const took = (prefetched) => formatMs(median(prefetched.map(({ propose }) => propose)));
  const after = [
    hits.length ? `the next draft then took ${took(hits)}` : "",
    misses.length ? `after a miss it took ${took(misses)}` : "",
  ]
    .filter(Boolean)
    .join(", ");
  const verify = (which) => formatMs(median(which.rounds.map((r) => r.timings.verify)));
  const [busy, waited] = ["busy_ms", "waited_ms"].map((name) => formatMs(median(all.map(({ note }) => note[name]))));
  return [
    {
      show: "none",
      figure: () => prefetchPicture(lane),
      say: `A draft model can also draft ahead: while the target verifies, it drafts for ${all[0].note.outcomes} possible [[outcome|outcomes]] of the round. In ${hits.length} of ${counted(all.length, "round")} the actual outcome was among them; ${after} (medians).`,
    },
    {
      show: "none",
      figure: () => prefetchPicture(lane),
      say: `Drafting ahead took ${busy} per round, and the target waited ${waited} for it. Both ran on one machine (${lane.start.device}): the target's forward over ${formatFigure(width(lane))} rows took ${verify(lane)} there, and over one row in the plain lane ${verify(plain)}.`,
    },
  ];
}

function steps(store) {
  const [copying, guessing, ahead] = ["ngram", "lookahead", "ssd"].map((name) => drafting(store, name));
  const plain = plainLane(store);
  const pace = (lane) => {
    const costs = costsOf(lane, plain);
    return costs ? `, ${times(costs.measured)} as fast as plain decoding` : "";
  };
  return [
    ...copySteps(copying),
    guessStep(guessing),
    ...preparedSteps(ahead, plain),
    {
      show: "lanes strip",
      act: atEnd,
      say: `Tokens per round: copies ${formatFigure(perRound(copying))}${pace(copying)}, with ${formatFigure(width(copying))} rows per forward; guesses ${formatFigure(perRound(guessing))}${pace(guessing)}, with ${formatFigure(width(guessing))} rows; drafting ahead ${formatFigure(perRound(ahead))}${pace(ahead)}.`,
    },
  ];
}

export const lesson = {
  title: "Looking ahead",
  about: "copies, the target's own guesses, and drafts made before they are needed",
  trace: "ahead",
  steps,
  last: { show: "lanes strip", act: atEnd },
  question: () => "On what text do copies help least?",
  answer: (store) => {
    const lane = drafting(store, "ngram");
    const without = lane.rounds.length - copiesOf(lane).length;
    return `On text that does not repeat itself: nothing is found, or what is found continues differently. A round without a draft is a plain forward and loses nothing; here that happened in ${without} of ${counted(lane.rounds.length, "round")}.`;
  },
  attempt: {
    words: "Choose another kind of text above the Run button, and see how many copies are accepted.",
    controls: { drafter: "ngram", gamma: 6, temperature: 0 },
  },
};
