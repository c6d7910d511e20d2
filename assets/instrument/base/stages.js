// The beats of a round: what is known after the draft, after the target's forward, after each decided child, after
// commit.
//
// Pure. `known` is what every view of the round is painted from, so that a round can be stepped through, scrubbed into,
// or shown without its result. Only stages have measured times; the children of one accept stage share its start time.

import { slotsOf } from "./store.js";

export const STAGES = ["draft", "verify", "accept", "commit"];

/** [{stage, at, slot, nodes}] in order: `at` is a moment of the lane's clock, `nodes` the children it verifies. */
export function beatsOf(round) {
  const t = round.timings;
  const before = round.start + 0.999 * (round.end - round.start); // only the commit ends the round
  const drafted = Math.min(before, round.start + t.propose.reduce((sum, ms) => sum + ms, 0));
  const verified = Math.min(before, drafted + t.verify);
  const decided = Math.min(before, verified + t.accept);
  const beats = round.nodes.length ? [{ stage: "draft", at: drafted, nodes: [] }] : [];
  beats.push({ stage: "verify", at: verified, nodes: [] });
  for (const decision of round.decisions) {
    const ids = decision.children.map((child) => child.node);
    const together = decision.rule === "greedy" || decision.rule === "deterministic"; // one draw decides them all
    for (const nodes of together ? [ids] : ids.map((id) => [id]))
      beats.push({ stage: "accept", at: verified, slot: decision.slot, nodes });
  }
  beats.push(
    { stage: "accept", at: decided, slot: round.last.slot, nodes: [], last: true },
    { stage: "commit", at: round.end, nodes: [] },
  );
  return beats;
}

/** The beat reached at a moment of the clock: -1 while the draft is being made. */
export function beatAt(round, now) {
  const beats = beatsOf(round);
  let at = -1;
  while (at + 1 < beats.length && beats[at + 1].at <= now) at++;
  return at;
}

export const beatOf = (round, stage) => beatsOf(round).findLastIndex((beat) => beat.stage === stage);

/** What is known at a beat: {beat, stage, drafted, verified, result, committed, decided: ids of decided nodes}. */
export function knownAt(round, beat) {
  const past = beatsOf(round).slice(0, beat + 1);
  const reached = (test) => past.some(test);
  return {
    beat,
    stage: past.length ? past[past.length - 1].stage : "",
    drafted: past.length > 0,
    verified: reached((b) => b.stage === "verify"),
    result: reached((b) => b.last),
    committed: reached((b) => b.stage === "commit"),
    decided: new Set(past.flatMap((b) => b.nodes)),
  };
}

/** A node's fate as far as it is known: a block's uniforms say nothing of a node until the last one has fallen. */
export function fateAt(round, known, node) {
  if (known.result || node.fate === "never_accepted") return node.fate;
  if (!known.decided.has(node.id) || round.decisions.some((c) => c.rule === "block")) return "drafted";
  return round.decisions.some((c) => c.children.some((child) => child.node === node.id && child.passed))
    ? "accepted"
    : "rejected";
}

/** Slots whose decision may be shown: that a later decision exists would reveal the result of an earlier one. */
export function openSlots(round, known) {
  if (known.result) return slotsOf(round);
  const open = [];
  for (const decision of round.decisions) {
    open.push(decision.slot);
    if (decision.rule !== "block" && decision.children.some((child) => !known.decided.has(child.node))) break;
  }
  return open.length ? open : [-1];
}
