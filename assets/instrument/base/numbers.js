// Numbers of whole lanes: where their time went, how evenly tokens came, and what the field's formula makes of it.
// Pure.
//
// S = tau / (gamma c + v + o): c a draft forward, v the target's forward over the drafted rows, o everything else of a
// round, each divided by a plain round (2211.17192, with the verify cost measured, not taken as 1).

import { median } from "./format.js";

export const sum = (values) => values.reduce((total, x) => total + x, 0);
/** What each draft forward of a round took; the rest of its proposing is the last entry. */
export const draftForwards = (round) => round.timings.propose.slice(0, -1);
const span = (round) => round.end - round.start;

/** Milliseconds of a lane up to `rounds` rounds, by what they went into; `other` is whatever no stage accounts for. */
export function timeSpent(lane, rounds) {
  const past = lane.rounds.slice(0, rounds);
  const draft = sum(past.flatMap(draftForwards));
  const verify = sum(past.map((r) => r.timings.verify));
  return {
    prefill: lane.prefill ? lane.prefill.end - lane.prefill.start : 0,
    draft,
    verify,
    other: sum(past.map(span)) - draft - verify,
  };
}

/**
 * Costs of a drafting lane, medians divided by the median plain round; null while either lane has too little to say.
 */
export function costsOf(draft, plain) {
  if (!draft || !plain || draft.rounds.length < 2 || plain.rounds.length < 2) return null;
  const one = median(plain.rounds.map(span));
  const forwards = draft.rounds.flatMap(draftForwards);
  const per = forwards.length / draft.rounds.length;
  const c = forwards.length ? median(forwards) / one : 0;
  const row = median(plain.rounds.map((r) => r.timings.verify)) / one; // the target over a single row
  const verify = median(draft.rounds.map((r) => r.timings.verify)) / one;
  const v = Math.max(row, verify); // more rows cannot cost less
  const o = Math.max(0, median(draft.rounds.map((r) => span(r) - sum(draftForwards(r)) - r.timings.verify)) / one);
  const tau = draft.tokens.length / draft.rounds.length;
  const pace = (lane) => lane.tokens.length / sum(lane.rounds.map(span));
  return {
    one,
    per,
    c,
    v,
    o,
    tau,
    predicted: tau / (per * c + v + o),
    measured: pace(draft) / pace(plain),
    row,
    noisy: verify < row, // this run's forwards of several rows came out faster than those of one
    drafted: sum(draft.rounds.map((r) => r.drafted)) / draft.rounds.length,
    curve: draft.verify || ownCurve(draft, v / row),
  };
}

/** v by rows as far as a run without a measured curve knows it: of one row, and of its own rounds. */
function ownCurve(draft, v) {
  const width = median(draft.rounds.map((r) => r.width));
  return width > 1 ? { widths: [1, width], v: [1, v], noise: [0, 0] } : { widths: [1], v: [1], noise: [0] };
}

/** v of a forward of `width` rows, divided by one of a single row, and its noise; NaN beyond what was measured. */
export function verifyAt(width, { widths, v, noise }) {
  const high = widths.findIndex((rows) => rows >= width);
  if (high < 0 || width < widths[0]) return { v: NaN, noise: NaN };
  const low = Math.max(0, high - 1);
  const share = high === low ? 0 : (width - widths[low]) / (widths[high] - widths[low]);
  const along = (values) => values[low] + share * (values[high] - values[low]);
  return { v: along(v), noise: along(noise) };
}

/** The longest chain whose verification was measured. */
export const longestChain = (costs) => Math.floor(costs.curve.widths[costs.curve.widths.length - 1]) - 1;

/**
 * TTFT and the percentiles of both gaps, as draftscope.trace.metrics has them. ITL counts tokens, ICL chunks (rounds).
 */
export function jitterOf(lane, rounds = lane.rounds.length) {
  const chunks = gapsOf(lane, rounds);
  const within = lane.rounds
    .slice(0, rounds)
    .flatMap((r) => Array.from({ length: Math.max(0, r.emitted.length - 1) }, () => 0));
  return {
    ttft: rounds ? lane.rounds[0].end : NaN,
    itl: percentiles([...chunks, ...within]),
    icl: percentiles(chunks),
  };
}

/** Milliseconds between the arrivals of the first `rounds` rounds. */
export const gapsOf = (lane, rounds) => lane.rounds.slice(1, rounds).map((r, i) => r.end - lane.rounds[i].end);

function percentiles(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => {
    const place = share * (sorted.length - 1);
    const low = Math.floor(place);
    return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
  };
  return { n: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

// The formula of a chain.

/**
 * Tokens per round if every draft token is accepted with the same probability: (1 - alpha^(gamma + 1)) / (1 - alpha).
 */
export const chainTau = (alpha, gamma) => (alpha >= 1 ? gamma + 1 : (1 - Math.pow(alpha, gamma + 1)) / (1 - alpha));

/** The alpha at which that formula gives a measured tau. */
export const alphaOf = (tau, gamma) => bisect((alpha) => chainTau(alpha, gamma) - tau);

/** Modelled with v by rows as measured, everything else as in this run; NaN for a chain longer than was measured. */
export function chainSpeed(alpha, gamma, c, costs) {
  const v = costs.row * verifyAt(gamma + 1, costs.curve).v;
  return chainTau(alpha, gamma) / (gamma * c + v + costs.o);
}

/** The alpha from which a chain pays; 1 where it never does. */
export const breakEven = (gamma, c, costs) => bisect((alpha) => chainSpeed(alpha, gamma, c, costs) - 1);

function bisect(f) {
  let [low, high] = [0, 1];
  for (let i = 0; i < 40; i++) {
    const middle = (low + high) / 2;
    if (f(middle) < 0) low = middle;
    else high = middle;
  }
  return high;
}

/** No round drafts two tokens at one depth; guess rows, which are never accepted, do not count. */
export const isChain = (lane) =>
  lane.rounds.every((r) => {
    const depths = r.nodes.filter((n) => n.fate !== "never_accepted").map((n) => n.depth);
    return new Set(depths).size === depths.length;
  });

/** Round values from 0 to `upTo`, at most about `most` of them. */
export function niceTicks(upTo, most) {
  const raw = upTo / most;
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const ticks = [];
  for (let at = 0; at <= upTo + 1e-9; at += step) ticks.push(at);
  return ticks;
}
