// Lesson: a poor draft costs time, and nothing else.

import { formatProb } from "../../../../base/format.js";
import { costsOf } from "../../../../base/numbers.js";
import { draftLane, draftTotals, plainLane } from "../../../../base/store.js";
import { overlap } from "../../../../draw/bars.js";
import { atChild, atEnd, atEndOf, equals, times, token, verifiedChildren } from "../telling.js";

function worst(lane) {
  const failed = verifiedChildren(lane).filter(
    (c) => !c.child.passed && c.child.q !== undefined && c.decision.distributions[0].q,
  );
  const words = failed.filter(({ node }) => /^\s?[A-Za-z]+$/.test(node.raw));
  return (words.length ? words : failed).sort((a, b) => b.child.q - b.child.p - (a.child.q - a.child.p))[0];
}

function steps(store) {
  const [lane, plain] = [draftLane(store), plainLane(store)];
  const { accepted, drafted } = draftTotals(lane, lane.rounds.length);
  const costs = costsOf(lane, plain);
  const bad = worst(lane);
  return [
    {
      show: "strip",
      act: atEnd,
      say: [
        `A poor [[draft]], the target's own first layers: ${accepted} of ${drafted} draft tokens were accepted.`,
        costs ? ` The run was ${times(costs.measured)} as fast as plain decoding.` : "",
      ],
    },
    bad && {
      show: "tree decision",
      act: (host) => {
        host.round.show("tree");
        atChild(host, lane, bad, 1);
      },
      say: [
        "Here it sampled ",
        token(bad.node.raw),
        ` with q ${equals(bad.child.q)}, while the target has p ${equals(bad.child.p)}. The overlap of both distributions is only α ${equals(overlap(bad.decision.distributions[0]))}.`,
      ],
    },
    bad && {
      show: "decision trial",
      act: (host) => atEndOf(host, lane, bad),
      say: "Does such a draft change the output? Sample this token 10,000 times: once by the rule, and once with the last token sampled from p instead of the residual distribution, a plausible mistake. The first matches p, however poor the draft; the second does not.",
    },
  ];
}

export const lesson = {
  title: "A poor draft",
  about: "it costs time and nothing else",
  trace: "wrong",
  steps,
  last: { show: "decision trial" },
  question: () => "What does a poor draft change, then?",
  answer: (store) => {
    const costs = costsOf(draftLane(store), plainLane(store));
    const here = costs
      ? ` (here ${times(costs.measured)} as fast as plain decoding, with a draft forward of ${formatProb(costs.c)} plain rounds)`
      : "";
    return `Only the speed${here}. Every token still follows p: what the draft samples too often is rejected accordingly, and the residual distribution makes up for what it samples too rarely.`;
  },
  attempt: {
    words: "A draft made of the target's own first layers. Compare its speed with what “Is it exact?” says.",
    controls: { drafter: "early-exit", gamma: 3, rule: "token", temperature: 1 },
  },
};
