// Lesson: why gamma drafted tokens give gamma + 1 distributions.

import { counted } from "../../../../base/format.js";
import { draftLane, slotRaw } from "../../../../base/store.js";
import { atStage, code, equals, token } from "../telling.js";

/** A round that kept its whole chain: the likeliest one of words, where there is one. */
function wholeChain(lane) {
  const whole = lane.rounds.filter(
    (r) => r.last.kind === "bonus" && !r.cut && r.nodes.length === r.depth && r.depth > 1,
  );
  const least = (round) => Math.min(...round.nodes.map(({ p }) => p));
  const words = whole.filter(({ nodes }) => nodes.every(({ raw }) => /^\s?[A-Za-z]+$/.test(raw)));
  return words.sort((a, b) => least(b) - least(a))[0] || whole[0];
}

function steps(store) {
  const lane = draftLane(store);
  const round = wholeChain(lane);
  if (!round) return [];
  const at = (slot) => (host) => {
    host.round.show("mask");
    atStage(host, lane, round, "commit");
    host.cursor.point(slot, slot);
  };
  const before = slotRaw(lane, round, -1).text;
  const rows = round.nodes.map((node, i) => ({
    show: "tree decision",
    act: at(node.parent),
    say: [
      `Row ${i + 1} read `,
      i ? token(round.nodes[i - 1].raw) : code(before),
      i ? "" : ", the last token of the text",
      ". Its [[distribution]] of the next token verified ",
      token(node.raw),
      `: p ${equals(node.p)}.`,
    ],
  }));
  const last = round.nodes[round.nodes.length - 1];
  return [
    ...rows,
    {
      show: "tree decision",
      act: at(last.id),
      say: [
        `Row ${round.width} read the last draft token, `,
        token(last.raw),
        ". There is no draft token left to verify, but the distribution is already computed: the target samples ",
        token(round.last.raw),
        " from it, the [[bonus token]].",
      ],
    },
    {
      show: "tree scale",
      act: (host) => {
        host.round.show("tree");
        atStage(host, lane, round, "commit");
      },
      say: `${counted(round.drafted, "draft token")}, ${counted(round.width, "distribution")}, ${counted(round.emitted.length, "token")} of output: one forward of the target.`,
    },
  ];
}

export const lesson = {
  title: "The bonus token",
  about: "why a draft of γ tokens gives γ + 1 distributions",
  trace: "coin",
  steps,
  last: { show: "tree decision" },
  question: () => "Which row's distribution is used if a draft token in the middle is rejected?",
  answer: () =>
    "The row before it: it gives the [[correction]]. The rows after it read a token that is not in the text, so they are discarded. Either way, every round ends with one token of the target's own.",
  attempt: {
    words: "Draft more tokens per round and see how rarely the bonus token is reached.",
    controls: { drafter: "eagle3", gamma: 10, rule: "token", temperature: 1 },
  },
};
