// Lesson: above temperature 0, how the acceptance test keeps the target's distribution.

import { formatProb } from "../../../../base/format.js";
import { draftLane } from "../../../../base/store.js";
import { overlap } from "../../../../draw/bars.js";
import { atChild, equals, token, verifiedChildren } from "../telling.js";

const isWord = ({ node }) => /^\s?[A-Za-z]{2,}$/.test(node.raw); // nobody sees a space, or learns from one letter

const LIKELY = 0.05; // a guess that the draft means

const open = ({ child }) => child.threshold > 0.15 && child.threshold < 0.85;

function cases(lane) {
  const children = verifiedChildren(lane);
  const words = children.filter(isWord);
  const all = [...words.filter(({ child }) => child.q > LIKELY), ...words, ...children];
  return {
    passed: all.find((c) => open(c) && c.child.passed),
    failed: all.find((c) => open(c) && !c.child.passed),
    certain: all.find((c) => c.child.threshold === 1 && c.child.p > c.child.q),
  };
}

const both = ({ child }) => `q ${equals(child.q)} and p ${equals(child.p)}`;

/** A prediction, then its result. */
const tested = (lane) => (c) => [
  {
    show: "tree decision",
    act: (host) => atChild(host, lane, c, 0),
    say: [
      "The draft sampled ",
      token(c.node.raw),
      ` with ${both(c)}, so it is less probable under the [[target]]. Will it be accepted? Decide before you continue.`,
    ],
  },
  {
    show: "tree decision",
    act: (host) => atChild(host, lane, c, 1),
    say: [
      `The [[threshold]] is p/q ${equals(c.child.threshold)}. The [[random number]] is u = ${formatProb(c.child.uniform)}: `,
      c.child.passed ? "below it, so the token is accepted." : "above it, so the token is rejected.",
      correction(c),
    ],
  },
];

function correction({ round, decision }) {
  if (round.last.slot !== decision.slot || round.last.kind !== "correction") return "";
  return [
    " It is replaced by the [[correction]] ",
    token(round.last.raw),
    ", sampled from the [[residual distribution]].",
  ];
}

function steps(store) {
  const lane = draftLane(store);
  const { passed, failed, certain } = cases(lane);
  return [
    ...[passed, failed].filter(Boolean).flatMap(tested(lane)),
    certain && {
      show: "tree decision",
      act: (host) => atChild(host, lane, certain, 1),
      say: [
        "Here ",
        token(certain.node.raw),
        ` had ${both(certain)}. The ratio is above 1, so it is always accepted: only tokens that are more probable under the draft than under the target can be rejected.`,
      ],
    },
    failed && {
      show: "decision",
      act: (host) => atChild(host, lane, failed, 1),
      say: `Before any token was sampled here, the probability of acceptance was the overlap of both distributions: the solid area, α ${equals(overlap(failed.decision.distributions[0]))}. The two hatched areas are equal: what the draft samples too often is rejected, and what it samples too rarely comes back through the [[residual distribution]]. So the output follows p.`,
    },
  ];
}

export const lesson = {
  title: "The acceptance test",
  about: "above temperature 0: how the output keeps the target's distribution",
  trace: "coin",
  steps,
  last: { show: "decision" },
  question: (store) => {
    const { failed } = cases(draftLane(store));
    return failed
      ? ["In this decision, what was the total probability that ", token(failed.node.raw), " is produced?"]
      : "What is the total probability that a token is produced?";
  },
  answer: (store) => {
    const { failed } = cases(draftLane(store));
    const here = failed ? ` Here that is ${formatProb(failed.child.p)}.` : "";
    return `Exactly p. The draft samples it with probability q, and it is accepted with min(1, p/q): together min(p, q). Where p is larger, the residual distribution adds the rest.${here}`;
  },
  attempt: {
    words: "Run with the token rule, press Hide the result, and predict each round.",
    controls: { drafter: "eagle3", gamma: 3, rule: "token", temperature: 1 },
  },
};
