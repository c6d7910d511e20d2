// Lesson: one round, from draft to commit.

import { counted, formatMs } from "../../../../base/format.js";
import { draftForwards, sum } from "../../../../base/numbers.js";
import { compareTokens, draftLane, meanRound, plainLane, defaultRound } from "../../../../base/store.js";
import { atEnd, atStage, listed, token } from "../telling.js";

function steps(store) {
  const [lane, plain] = [draftLane(store), plainLane(store)];
  const round = defaultRound(lane);
  const forwards = draftForwards(round);
  const { equal, over } = compareTokens(lane, plain);
  const kept = round.emitted_raw.slice(0, round.accepted);
  const at = (stage) => (host) => atStage(host, lane, round, stage);
  const took = formatMs(round.end - round.start);
  const plainTook = formatMs(round.emitted.length * meanRound(plain));
  return [
    {
      show: "tree scale",
      act: at("draft"),
      say: [
        "One [[round]]. The [[draft]], here a [[head]] over the target's own states, proposes ",
        listed(round.nodes.map((n) => n.raw)),
        ` with ${counted(forwards.length, "forward")}, ${formatMs(sum(forwards))} in total. None of it is verified yet.`,
      ],
    },
    {
      show: "tree scale",
      act: at("verify"),
      say: `The [[target]] processes all of it in one forward over ${round.width} [[rows]]: ${formatMs(round.timings.verify)}. Without a draft it takes ${formatMs(meanRound(plain))} per token.`,
    },
    {
      show: "tree scale",
      act: at("accept"),
      say: [
        `It accepts draft tokens as long as they are what it would have produced: ${round.accepted} of ${round.drafted}`,
        kept.length ? [": ", listed(kept)] : "",
        ".",
      ],
    },
    {
      show: "tree scale",
      act: at("commit"),
      say: [
        "The same forward also gives the next token, so the target adds one of its own, ",
        token(round.last.raw),
        `. That is ${counted(round.emitted.length, "token")} in ${took}; plain decoding takes ${plainTook}.`,
      ],
    },
    {
      show: "lanes strip",
      act: atEnd,
      say: `The whole run: ${counted(lane.rounds.length, "target forward")} for ${counted(lane.tokens.length, "token")}. The draft changed nothing in the text: ${equal} of ${over} tokens equal those of plain decoding.`,
    },
  ];
}

export const lesson = {
  title: "Draft and verify",
  about: "one round, from draft to commit",
  trace: "round",
  steps,
  last: { show: "lanes strip", act: atEnd },
  question: () => "What does a round produce if its first draft token is wrong?",
  answer: (store) => {
    const { rounds } = draftLane(store);
    const none = rounds.filter((r) => r.drafted && r.accepted === 0).length;
    return `One token, the target's own. A round never produces less than a plain forward, but it also costs the drafting. In this run that happened in ${none} of ${counted(rounds.length, "round")}.`;
  },
  attempt: {
    words: "Be the draft yourself: type how the text continues, and let the target verify it.",
    controls: { drafter: "typed", temperature: 0 },
  },
};
