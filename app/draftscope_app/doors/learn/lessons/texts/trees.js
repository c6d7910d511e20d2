// Lesson: the same number of draft tokens, as a tree.

import { formatFigure } from "../../../../base/format.js";
import { isChain } from "../../../../base/numbers.js";
import { draftTotals, nodeOf } from "../../../../base/store.js";
import { atChild, atEnd, perRound, token, verifiedChildren } from "../telling.js";

const lanesOf = (store) => [store.lanes.find(isChain), store.lanes.find((lane) => !isChain(lane))];

function steps(store) {
  const [chain, tree] = lanesOf(store);
  const saved = verifiedChildren(tree).find((c) => c.i === 1 && c.child.passed);
  const deepest = Math.max(...chain.rounds.map((r) => r.depth));
  const full = chain.rounds.filter((r) => r.depth === deepest);
  const [some, every] = [1, deepest].map((least) => full.filter((r) => r.accepted >= least).length);
  const [n, m] = [chain, tree].map((lane) => Math.max(...lane.rounds.map((r) => r.drafted)));
  const face = (name) => (host) => {
    host.round.show(name);
    atChild(host, tree, saved, 1);
  };
  return [
    saved && {
      show: "tree decision",
      act: face("tree"),
      say: [
        `A tree drafts alternatives, here ${saved.round.drafted} tokens in one round. `,
        token(nodeOf(saved.round, saved.decision.children[0].node).raw),
        " was rejected, and its sibling ",
        token(saved.node.raw),
        " was accepted against the remaining distribution. A chain would have ended here.",
      ],
    },
    saved && {
      show: "tree",
      act: face("mask"),
      say: "It is still one forward. The [[mask]] keeps siblings apart: each row sees the text so far, its ancestors and itself. Point at a row to see what it attends to.",
    },
    {
      show: "lanes strip",
      act: atEnd,
      say: `Two lanes that draft ${n === m ? n : `${n} and ${m}`} tokens per round: a chain and a tree. The chain produced ${formatFigure(perRound(chain))} tokens per round, the tree ${formatFigure(perRound(tree))}.`,
    },
    {
      show: "strip",
      act: atEnd,
      say: `How far does a chain get? All ${deepest} draft tokens were accepted in ${every} of ${full.length} rounds, at least one in ${some}.`,
    },
  ];
}

export const lesson = {
  title: "Trees",
  about: "the same number of draft tokens, with alternatives",
  trace: "trees",
  steps,
  last: { show: "lanes strip", act: atEnd },
  question: () => "When does a chain beat a tree with as many nodes?",
  answer: (store) => {
    const [chain, tree] = lanesOf(store).map((lane) => draftTotals(lane, lane.rounds.length));
    return `When draft tokens are nearly always accepted: then depth matters, and siblings are wasted. Here ${chain.accepted} of the chain's ${chain.drafted} draft tokens were accepted, and ${tree.accepted} of the tree's ${tree.drafted}.`;
  },
  attempt: {
    words: "Change the shape, for example to 4, 1 or 1, 1, 1, 1, and compare tokens per round.",
    controls: { drafter: "eagle3-sampled-tree", shape: "2, 1, 1", temperature: 1 },
  },
};
