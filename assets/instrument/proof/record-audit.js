// What a reader can hold the record to without trusting the engine: every recorded decision against its own numbers.
// Pure.

import { decisionAt, nodeOf } from "../base/store.js";
import { acceptProbability, blockWeights } from "../decision/sampled-rules.js";

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
    round.decisions.forEach((decision) =>
      decision.children.forEach((child, i) => check(count, round, decision, child, i, lane.start?.settings?.lenience)),
    );
    weights(count, round);
    count(
      "rounds emit their accepted tokens and one target token, unless cut",
      round.cut ? round.emitted.length <= round.accepted + 1 : round.emitted.length === round.accepted + 1,
    );
    if (round.last.kind === "bonus")
      count(
        "bonus tokens follow an accepted node without children to verify",
        round.nodes.some((n) => n.id === round.last.slot && n.fate === "accepted") &&
          !decisionAt(round, round.last.slot),
      );
  }
  return [...lines.values()];
}

function check(count, round, decision, child, i, lenience) {
  const node = nodeOf(round, child.node);
  if (child.uniform !== null && child.uniform !== undefined)
    count("tokens passed exactly when u < threshold", child.passed === child.uniform < child.threshold);
  if (decision.rule === "token" || decision.rule === "rrsw")
    count("thresholds equal min(1, p/q)", near(child.threshold, acceptProbability(child.p, child.q)));
  if (decision.rule === "lenient")
    count("thresholds equal min(1, p / (l q))", near(child.threshold, acceptProbability(child.p, child.q, lenience)));
  if (decision.rule === "typical")
    count("draft tokens passed exactly when p > threshold", child.passed === child.p > child.threshold);
  if (decision.rule === "top-k")
    count(
      "draft tokens passed exactly when among the k most probable",
      child.passed === (child.p >= child.threshold && child.p > 0),
    );
  if (decision.rule === "greedy" || decision.rule === "deterministic")
    count(
      "children passed exactly when equal to the target's own token",
      child.passed === (node.token === decision.draw),
    );
  if (decision.rule === "greedy" && i === 0)
    count(
      "the target's own token is its most probable one",
      decision.distributions[0].p[decision.distributions[0].ids.indexOf(decision.draw)] >=
        Math.max(...decision.distributions[0].p),
    );
  if (node.fate === "accepted") count("accepted tokens have p > 0", child.p > 0 || decision.rule === "block");
}

function weights(count, round) {
  const children = round.decisions
    .filter((decision) => decision.rule === "block")
    .map(({ children: [child] }) => child);
  const running = blockWeights(children);
  children.forEach((child, i) => count("block weights equal the running min(1, p/q)", near(child.weight, running[i])));
}
