// How fast: the one ratio that headline, lanes and figures show.
//
// Pure. A race gives tokens per second of each lane on its own clock. Whole runs repeat both lanes, unrecorded and
// alone; as soon as there are enough, their median is said, with its range and their number. Noise is named where the numbers
// contradict each other, with its cause where the run recorded one.

import { median } from "../base/format.js";
import { draftLane, plainLane, raceClock, stateAt } from "../base/store.js";

export const ENOUGH = 3; // whole runs of each lane, before their median takes the race's place
export const APART = 0.15; // repeats that disagree by more are noise
export const BEYOND = 1.02; // of tau: a speedup above it is noise, since no round costs less than one of plain decoding
const BUSY = 0.25; // cores that others kept busy, from which they are named as a cause

/** The race at `now`: tokens per second of both lanes, as the lanes show them, and their ratio. */
function raceSpeed(draft, plain, now) {
  const [draftSpeed, plainSpeed] = [draft, plain].map((lane) => stateAt(lane, now).perSecond);
  return { draftSpeed, plainSpeed, ratio: draftSpeed / plainSpeed };
}

/** Whole runs of both lanes: the median ratio of tokens per second, its range over the repeats, and their number. */
export function wholeRuns(draft, plain) {
  if (!draft.solo || !plain.solo) return { n: 0 };
  const n = Math.min(draft.solo.seconds.length, plain.solo.seconds.length);
  const rate = (lane, seconds) => lane.solo.tokens / seconds;
  const ratios = Array.from(
    { length: n },
    (_, i) => rate(draft, draft.solo.seconds[i]) / rate(plain, plain.solo.seconds[i]),
  );
  const [draftSpeed, plainSpeed] = [draft, plain].map((lane) => rate(lane, median(lane.solo.seconds)));
  const [low, high] = [Math.min(...ratios), Math.max(...ratios)];
  return { n, ratio: draftSpeed / plainSpeed, low, high, draftSpeed, plainSpeed };
}

/**
 * How many times as fast as plain decoding, said in one way wherever it is said: the median of whole runs as soon as
 * there are enough, before that the race's. `source` says which; without a ratio yet it is NaN.
 */
export function speedup(draft, plain, now) {
  const runs = wholeRuns(draft, plain);
  const seen = now >= Math.max(draft.clock, plain.clock);
  if (seen && runs.n >= ENOUGH) return { ...runs, source: "runs" };
  return { ...raceSpeed(draft, plain, now), n: 1, source: "race" };
}

/** Tokens per second of a lane, as the lanes show them: those whose ratio is said. What was written before an answer
 *  failed is too little to be a speed. */
export function laneSpeed(lane, store, now) {
  if (lane.end?.reason === "error" && now >= lane.clock) return NaN;
  const [draft, plain] = [draftLane(store), plainLane(store)];
  const race = stateAt(lane, now).perSecond;
  if (!draft || !plain || ![draft, plain].includes(lane)) return race;
  const { source, draftSpeed, plainSpeed } = speedup(draft, plain, now);
  return source === "race" ? race : lane === draft ? draftSpeed : plainSpeed;
}

/** Why the speed of a finished race is noise, as sentences without a full stop; none if nothing contradicts it. */
export function noiseOf(store, draft, plain) {
  const race = raceSpeed(draft, plain, raceClock(store)).ratio;
  const runs = wholeRuns(draft, plain);
  const tau = draft.tokens.length / draft.rounds.length;
  const reasons = [];
  const percent = (share) => `${Math.round(100 * share)}%`;
  const spread = runs.n > 1 ? runs.high / runs.low - 1 : 0; // of pairs, which a machine that slows down leaves equal
  if (spread > APART) reasons.push(`pairs of whole runs disagree by ${percent(spread)}`);
  const apart = runs.n ? Math.max(race, runs.ratio) / Math.min(race, runs.ratio) - 1 : 0;
  if (apart > APART) reasons.push(`race and whole runs disagree by ${percent(apart)}`);
  if (Math.max(race, runs.n ? runs.ratio : 0) > BEYOND * tau)
    reasons.push(`a speedup above τ = ${tau.toFixed(2)} tokens per round is not the drafter's`);
  const graphs = [draft, plain].flatMap((lane) => lane.rounds.map((round) => round.timings.graphs_recorded || 0));
  const recorded = graphs.reduce((all, one) => all + one, 0);
  if (recorded) reasons.push(`${recorded} CUDA graphs were recorded inside timed rounds`);
  return reasons;
}

/** What the run knows of the cause: cores that other processes kept busy. */
export function causeOf(draft, plain) {
  const known = [draft, plain].flatMap((lane) => [lane.end?.other_cores, ...(lane.solo?.other_cores || [])]);
  const cores = known.filter((x) => Number.isFinite(x));
  if (!cores.length) return "cause not recorded";
  const most = Math.max(...cores);
  return most >= BUSY
    ? `other processes: up to ${most.toFixed(1)} cores`
    : "other processes were idle, so the cause is not known";
}
