// What a reader can hold the record to without trusting the engine: every recorded decision against its own numbers. Pure.

import { decisionAt } from "../base/store.js";

const near = (a, b) => Math.abs(a - b) <= 1e-4 * Math.max(1e-3, Math.abs(b));

/** [{words, good, of}] over a lane's rounds; a line that had nothing to check is left out. */
export function audit(lane) {
  const lines = new Map();
  const count = (words, holds) => {
    const line = lines.get(words) || { words, good: 0, of: 0 };
    line.of += 1;
    line.good += holds ? 1 : 0;
    lines.set(words, line);
  };
  for (const round of lane.rounds) {
    round.decisions.forEach((contest) =>
      contest.children.forEach((child, i) => check(count, round, contest, child, i, lane.start?.settings?.lenience)),
    );
    weights(count, round);
    count(
      "rounds emit what they accepted and one token of the target, or were cut",
      round.cut ? round.emitted.length <= round.accepted + 1 : round.emitted.length === round.accepted + 1,
    );
    if (round.last.kind === "bonus")
      count(
        "bonuses stand below an accepted node that had no child left to judge",
        round.nodes.some((n) => n.id === round.last.slot && n.fate === "accepted") &&
          !decisionAt(round, round.last.slot),
      );
  }
  return [...lines.values()];
}

function check(count, round, contest, child, i, lenience) {
  const node = round.nodes.find((n) => n.id === child.node);
  if (child.uniform !== null && child.uniform !== undefined)
    count("coins fell on the side of their threshold that is told", child.passed === child.uniform < child.threshold);
  if (contest.rule === "token" || contest.rule === "rrsw")
    count(
      "thresholds are min(1, p/q) of the laws that the child faced",
      near(child.threshold, Math.min(1, child.p / child.q)),
    );
  if (contest.rule === "lenient")
    count(
      "thresholds are min(1, p / (l q)) of the laws that the child faced",
      near(child.threshold, Math.min(1, child.p / (lenience * child.q))),
    );
  if (contest.rule === "typical")
    count("drafts stand exactly where p lies above the threshold", child.passed === child.p > child.threshold);
  if (contest.rule === "top-k")
    count(
      "drafts stand exactly where p reaches that of the k-th likeliest token",
      child.passed === (child.p >= child.threshold && child.p > 0),
    );
  if (contest.rule === "greedy" || contest.rule === "deterministic")
    count(
      "children stand exactly where they carry the target's own token",
      child.passed === (node.token === contest.draw),
    );
  if (contest.rule === "greedy" && i === 0)
    count(
      "the target's own token is the likeliest of its law",
      contest.distributions[0].p[contest.distributions[0].ids.indexOf(contest.draw)] >=
        Math.max(...contest.distributions[0].p),
    );
  if (node.fate === "accepted")
    count("accepted tokens have probability above 0 under the target", child.p > 0 || contest.rule === "block");
}

function weights(count, round) {
  let weight = 1;
  for (const contest of round.decisions.filter((c) => c.rule === "block")) {
    const child = contest.children[0];
    weight = Math.min(1, (weight * child.p) / child.q);
    count("block weights are the running min(1, p/q)", near(child.weight, weight));
  }
}
