// Lesson: faster, and less even.

import { formatFigure, formatMs, median } from "../../../../base/format.js";
import { jitterOf } from "../../../../base/numbers.js";
import { draftLane, plainLane } from "../../../../base/store.js";
import { arrivalPicture, arrivalsOf, gapsOf } from "../figures.js";
import { atEnd, perRound } from "../telling.js";

function steps(store) {
  const [draft, plain] = [draftLane(store), plainLane(store)];
  const [a, b] = [jitterOf(draft), jitterOf(plain)];
  return [
    {
      show: "lanes strip",
      act: (host) => {
        host.transport.seek(0);
        host.transport.play();
      },
      say: "Watch both lanes. Plain decoding produces one token at a time. Speculative decoding produces all tokens of a [[round]] at once, and then nothing until the next round ends.",
    },
    {
      show: "strip",
      act: atEnd,
      say: `The median gap between tokens ([[ITL]]) is ${formatMs(b.itl.p50)} in the plain lane and ${formatMs(a.itl.p50)} in the other, because ${formatFigure(perRound(draft))} tokens arrive together. The median gap between rounds ([[ICL]]) is ${formatMs(b.icl.p50)} and ${formatMs(a.icl.p50)}: fewer waits, each as long as a whole round.`,
    },
    {
      show: "none",
      figure: arrivalPicture,
      say: `A display can hold tokens back and spread each round over the time until the next one ends. The median gap is then ${formatMs(median(gapsOf(arrivalsOf(draft, true))))}, and the text still ends at ${formatMs(draft.clock)} instead of ${formatMs(plain.clock)}.`,
    },
  ];
}

export const lesson = {
  title: "Jitter",
  about: "faster, and less even",
  trace: "round",
  steps,
  last: { show: "none", figure: arrivalPicture },
  question: () => "Does the first token arrive earlier, too?",
  answer: (store) => {
    const [a, b] = [jitterOf(draftLane(store)), jitterOf(plainLane(store))];
    return `The [[TTFT]] contains prefill and the first round, and that round drafts before it verifies: ${formatMs(a.ttft)} here, ${formatMs(b.ttft)} in the plain lane. Speculative decoding saves time only after that.`;
  },
  attempt: {
    words: "Draft more tokens per round: rounds take longer, and so do the waits between them.",
    controls: { drafter: "eagle3", gamma: 10, temperature: 0 },
  },
};
