// Lesson: what a forward costs, and what it costs with more rows.

import { counted, formatMs } from "../../../../base/format.js";
import { plainLane } from "../../../../base/store.js";
import { byRows, rowBars } from "../figures.js";
import { atEnd, listed, times } from "../telling.js";

const SHOWN = 6; // tokens of the text's beginning

function steps(store) {
  const plain = plainLane(store);
  const rows = byRows(plain);
  const [one, most] = [rows[0], rows[rows.length - 1]];
  const { tokens, start, end } = plain.prefill;
  return [
    {
      show: "lanes strip",
      act: atEnd,
      say: [
        "A language model writes one token at a time, a word or a piece of one. This answer begins with ",
        listed(plain.tokens.slice(0, SHOWN).map(({ raw }) => raw)),
        ".",
      ],
    },
    {
      show: "strip",
      act: atEnd,
      say: `Every token takes a whole [[forward]] of the [[target]], through all of its weights: ${counted(plain.rounds.length, "forward")} for ${counted(plain.tokens.length, "token")}, ${formatMs(one.ms)} each. The next one cannot begin before its token is known.`,
    },
    {
      show: "none",
      figure: () => rowBars(plain),
      say: `Reading is another matter: the ${counted(tokens, "token")} of the prompt were all known, and took ${formatMs(end - start)} together. How much does a forward over several [[rows]] cost? With ${most.rows} rows it took ${times(most.v)} as long as with one. Weights are read once and kernels are launched once, however many rows share them.`,
    },
  ];
}

export const lesson = {
  title: "One token per pass",
  about: "what a pass of the large model costs, and what more tokens at once add",
  trace: "rows",
  steps,
  last: { show: "none", figure: (store) => rowBars(plainLane(store)) },
  question: () => "A pass could read several tokens of the answer at once, if they were known. Who could know them?",
  answer: () =>
    "Nobody for certain, but they can be guessed: by a smaller model, or by a copy of what the text has said before. One pass then checks all guesses. Those that are right are written at once, and everything after the first wrong one is discarded.",
  attempt: {
    words: "Choose a drafter, press Run, and count how many tokens one pass writes.",
    controls: { drafter: "eagle3", gamma: 4, temperature: 0 },
  },
};
