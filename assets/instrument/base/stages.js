// The beats of a round: what is known after the draft, after the target's forward, after each judged child, after commit.
//
// Pure. `known` is what every view of the round is painted from, so that a round can be stepped through, scrubbed into, or
// shown without its verdict. Only stages have measured times; the children of one judge stage share its beginning.

import { slotsOf } from "./store.js";

export const STAGES = ["draft", "verify", "judge", "commit"];

/** [{stage, at, slot, nodes}] in order: `at` is a moment of the lane's clock, `nodes` the children this beat judges. */
export function beatsOf(round) {
  const t = round.timings;
  const before = round.start + 0.999 * (round.end - round.start); // only the commit ends the round
  const drafted = Math.min(before, round.start + t.propose.reduce((sum, ms) => sum + ms, 0));
  const verified = Math.min(before, drafted + t.verify);
  const judged = Math.min(before, verified + t.accept);
  const beats = round.nodes.length ? [{ stage: "draft", at: drafted, nodes: [] }] : [];
  beats.push({ stage: "verify", at: verified, nodes: [] });
  for (const contest of round.decisions) {
    const ids = contest.children.map((child) => child.node);
    const alone = contest.rule === "greedy" || contest.rule === "deterministic"; // one draw decides them all
    for (const nodes of alone ? [ids] : ids.map((id) => [id]))
      beats.push({ stage: "judge", at: verified, slot: contest.slot, nodes });
  }
  beats.push(
    { stage: "judge", at: judged, slot: round.last.slot, nodes: [], last: true },
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

/** What is known at a beat: {beat, stage, drafted, verified, verdict, committed, judged: ids of judged nodes}. */
export function knownAt(round, beat) {
  const past = beatsOf(round).slice(0, beat + 1);
  const reached = (test) => past.some(test);
  return {
    beat,
    stage: past.length ? past[past.length - 1].stage : "",
    drafted: past.length > 0,
    verified: reached((b) => b.stage === "verify"),
    verdict: reached((b) => b.last),
    committed: reached((b) => b.stage === "commit"),
    judged: new Set(past.flatMap((b) => b.nodes)),
  };
}

/** A node's fate as far as it is known: a block's coins say nothing of a node until the last one has fallen. */
export function fateAt(round, known, node) {
  if (known.verdict || node.fate === "never_accepted") return node.fate;
  if (!known.judged.has(node.id) || round.decisions.some((c) => c.rule === "block")) return "drafted";
  return round.decisions.some((c) => c.children.some((child) => child.node === node.id && child.passed))
    ? "accepted"
    : "rejected";
}

/** Slots whose contest may be looked at: a later contest's existence would tell how an earlier one ended. */
export function openSlots(round, known) {
  if (known.verdict) return slotsOf(round);
  const open = [];
  for (const contest of round.decisions) {
    open.push(contest.slot);
    if (contest.rule !== "block" && contest.children.some((child) => !known.judged.has(child.node))) break;
  }
  return open.length ? open : [-1];
}
