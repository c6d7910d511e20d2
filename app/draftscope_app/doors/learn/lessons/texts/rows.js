// Lesson: what a forward costs, and what it costs with more rows.

import { counted, formatMs } from "../../../../base/format.js";
import { compareTokens, plainLane } from "../../../../base/store.js";
import { byRows, rowBars } from "../figures.js";
import { atEnd, times } from "../telling.js";

function steps(store) {
  const plain = plainLane(store);
  const rows = byRows(store);
  const most = rows.has(8) ? 8 : Math.max(...rows.keys());
  const others = store.lanes.filter((lane) => lane !== plain);
  const same = others.every((lane) => compareTokens(lane, plain).equal === compareTokens(lane, plain).over);
  const [one, many] = [rows.get(1).ms, rows.get(most).ms];
  return [
    {
      show: "strip",
      act: atEnd,
      say: `Plain decoding produces one token per [[forward]] of the [[target]]: ${counted(plain.rounds.length, "forward")} for ${counted(plain.tokens.length, "token")}, ${formatMs(one)} each.`,
    },
    {
      show: "strip",
      act: atEnd,
      say: `The other lanes got their drafts from an [[oracle]], so one forward could verify several [[rows]] at once. They needed ${others.map((lane) => lane.rounds.length).join(", ")} forwards for ${same ? "exactly the same text" : "a text of that length"}.`,
    },
    {
      show: "none",
      figure: rowBars,
      say: `What does a forward over more rows cost? With ${most} rows it took ${times(many / one)} as long as with one. Weights are read once and kernels are launched once, however many rows share them.`,
    },
  ];
}

export const lesson = {
  title: "One token per pass",
  about: "what a pass of the large model costs, and what more tokens at once add",
  trace: "rows",
  steps,
  last: { show: "none", figure: rowBars },
  question: () => "Why not draft as many tokens as the target can process at once?",
  answer: () =>
    "Every row costs time, accepted or not, and something has to draft it. An oracle is always right. A real draft makes a mistake sooner or later, and everything after its first mistake is discarded.",
  attempt: {
    words: "An oracle that is right less often: lower its α and see which draft lengths still pay.",
    controls: { drafter: "oracle", gamma: 7, oracle_alpha: 0.7, temperature: 0 },
  },
};
