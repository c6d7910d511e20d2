// The fold: events in, lanes out. Everything on screen is read from here and from nothing else.
//
// A store holds one run: its lanes in order of appearance, each with its rounds and its tokens. `fold` takes one event
// of the trace (engine/draftscope/trace/events.py); no view ever changes a store.

import { rawBytes, visible } from "./format.js";

export const newStore = () => ({ run: null, source: "live", over: false, lanes: [], byName: new Map() });

export function fold(store, event) {
  if (store.run === null) store.run = event.run;
  const lane = laneOf(store, event.lane);
  if (event.kind === "run_start") begin(lane, event);
  else if (event.kind === "prefill") lane.prefill = event;
  else if (event.kind === "round") addRound(lane, event);
  else if (event.kind === "burst") addRound(lane, asRound(event), burstKind(lane));
  else if (event.kind === "served") lane.served = event;
  else if (event.kind === "forced") lane.forced = event;
  else if (event.kind === "drafted") reconstruct(lane, event);
  else if (event.kind === "run_end") lane.end = event;
  else if (event.kind === "solo_runs") lane.solo = event;
  else if (event.kind === "verify_costs") lane.verify = event;
  else if (event.kind === "parted") lane.parted = event;
  if (Number.isFinite(event.end)) lane.clock = Math.max(lane.clock, event.end);
  return store;
}

/** A fork's decoder reads what was given to it first: a character may be cut there. */
function begin(lane, start) {
  lane.start = start;
  lane.given = (start.fork ? start.fork.raw : []).map((raw) => lane.decoder.decode(rawBytes(raw), { stream: true }));
}

function laneOf(store, name) {
  let lane = store.byName.get(name);
  if (!lane) {
    lane = {
      name,
      start: null,
      prefill: null,
      rounds: [],
      tokens: [],
      end: null,
      solo: null,
      verify: null,
      parted: null,
      served: null, // a server's lane: its figures,
      forced: null, // p of its tokens under the target here,
      drafted: null, // and q under the drafter here
      clock: 0,
    };
    lane.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    store.byName.set(name, lane);
    store.lanes.push(lane);
  }
  return lane;
}

/** A server's burst as a round of which only the arrival is known. */
function asRound(burst) {
  const token = burst.emitted[burst.emitted.length - 1];
  const raw = burst.emitted_raw[burst.emitted.length - 1];
  const timings = { propose: [], verify: burst.end - burst.start, accept: 0, commit: 0, host: 0 };
  const none = { width: 1, drafted: 0, accepted: 0, depth: 0, nodes: [], decisions: [], annotations: [] };
  return { ...burst, ...none, last: { kind: "plain", slot: -1, token, raw }, timings };
}

/** Neighbouring bursts are told apart. */
const burstKind = (lane) => (lane.rounds.length % 2 ? "burst odd" : "burst");

/**
 * What the rounds of a server's lane were, if it drafts with the model that gives q: in each burst all tokens but the
 * last were drafted and accepted. Which token was rejected is not known.
 */
function reconstruct(lane, drafted) {
  lane.drafted = drafted;
  for (const round of lane.rounds) {
    const count = round.emitted.length - 1;
    const node = (_, id) => ({
      id,
      token: round.emitted[id],
      raw: round.emitted_raw[id],
      parent: id - 1,
      depth: id + 1,
      origin: drafted.draft,
      fate: "accepted",
      p: lane.forced.p[round.firstToken + id],
      q: drafted.q[round.firstToken + id],
    });
    const nodes = Array.from({ length: count }, node);
    const last = { ...round.last, slot: count - 1 };
    Object.assign(round, { nodes, last, width: count + 1, drafted: count, accepted: count, depth: count });
  }
}

function addRound(lane, round, came) {
  const index = lane.rounds.length;
  const first = lane.tokens.length;
  const raws = round.cut === "eos" ? [...round.emitted_raw.slice(0, -1), ""] : round.emitted_raw; // the end of text has no text
  const pieces = raws.map((raw) => lane.decoder.decode(rawBytes(raw), { stream: true }));
  // The engine's own incremental decode is the authority; where the bytes say otherwise, the round is one piece of
  // text.
  const agree = pieces.join("") === round.text_delta;
  round.emitted.forEach((id, i) => {
    const kind = came || (i < round.accepted ? "accepted" : round.last.kind);
    const text = agree ? pieces[i] : i === 0 ? round.text_delta : "";
    lane.tokens.push({ id, raw: round.emitted_raw[i], text, kind, round: index, at: round.end });
  });
  lane.rounds.push(Object.assign(round, { index, firstToken: first, tokensAfter: lane.tokens.length }));
}

// State at a time of the race clock.

/** How many rounds of the lane had ended by `now`. */
export function roundsAt(lane, now) {
  let low = 0;
  let high = lane.rounds.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.rounds[middle].end <= now) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * A lane at `now`: rounds ended, tokens written, and tokens a second on its own clock, the prompt's reading included.
 */
export function stateAt(lane, now) {
  const rounds = roundsAt(lane, now);
  const tokens = rounds ? lane.rounds[rounds - 1].tokensAfter : 0;
  const spent = rounds ? lane.rounds[rounds - 1].end : 0;
  return { rounds, tokens, spent, perSecond: spent > 0 ? (1000 * tokens) / spent : NaN };
}

export function draftTotals(lane, rounds) {
  let drafted = 0;
  let accepted = 0;
  for (let i = 0; i < rounds; i++) {
    drafted += lane.rounds[i].drafted;
    accepted += lane.rounds[i].accepted;
  }
  return { drafted, accepted };
}

/** The time of the race clock: that of the lane furthest ahead. */
export const raceClock = (store) => store.lanes.reduce((most, lane) => Math.max(most, lane.clock), 0);

/** Nothing more will come: every lane has ended, or the run broke off (`over`). */
export const isFinished = (store) => store.over || (store.lanes.length > 0 && store.lanes.every((lane) => lane.end));

/** A server of another program wrote the lane, and only its bursts are known. */
export const isServer = (lane) => Boolean(lane?.start?.server) && !isInside(lane);

/** A server of another program wrote the lane, and a recorder inside it sent its rounds. */
export const isInside = (lane) => Boolean(lane?.start?.server?.inside);

/** Servers were raced: nothing is known of their rounds but when their tokens arrived. */
export const ofServers = (store) => store.lanes.some(isServer);

export const speculates = (lane) =>
  !isServer(lane) && (lane.start ? lane.start.drafter !== "plain" : lane.rounds.some((r) => r.nodes.length));

export const plainLane = (store) => store.lanes.find((lane) => !speculates(lane) && !isServer(lane)) || null;

/** Whose text and speed the others are compared with: plain decoding, or the first server. */
export const referenceLane = (store) => (ofServers(store) ? store.lanes[0] : plainLane(store));

export const draftLane = (store) => store.lanes.find(speculates) || null;

export const temperatureOf = (lane) => Number(lane?.start?.settings?.temperature ?? 0);

/** Mean milliseconds of a round, measured on the lane's own clock. */
export function meanRound(lane) {
  if (!lane || !lane.rounds.length) return NaN;
  return lane.rounds.reduce((sum, r) => sum + (r.end - r.start), 0) / lane.rounds.length;
}

/** Greedy lanes compared token by token: how many agree, over how many, and where they first differ. */
export function compareTokens(a, b) {
  const over =
    a.end && b.end && !cancelled(a) && !cancelled(b)
      ? Math.max(a.tokens.length, b.tokens.length)
      : Math.min(a.tokens.length, b.tokens.length);
  let equal = 0;
  let first = -1;
  for (let i = 0; i < over; i++) {
    const same = i < a.tokens.length && i < b.tokens.length && a.tokens[i].id === b.tokens[i].id;
    if (same) equal++;
    else if (first < 0) first = i;
  }
  return { equal, over, first };
}

const cancelled = (lane) => lane.end.reason === "cancelled" || lane.end.reason === "error";

/** The share of its nodes that are words. */
const draftsWords = ({ nodes }) => nodes.filter(({ raw }) => /\p{L}{2}/u.test(raw)).length / nodes.length;

/** The round to look at first: of those with an acceptance and a rejection those that draft the most words, then that with the
 * most tokens accepted; else any with a draft, else the first. */
export function defaultRound(lane) {
  const whole = lane.rounds.filter((r) => !r.cut);
  const both = whole.filter((r) => r.accepted > 0 && r.nodes.some((n) => n.fate === "rejected"));
  const best = both.sort((a, b) => draftsWords(b) - draftsWords(a) || b.accepted - a.accepted || a.index - b.index)[0];
  return best || whole.find((r) => r.accepted > 0) || whole.find((r) => r.nodes.length) || lane.rounds[0] || null;
}

/** The children of a slot that are verified. */
export const childrenOf = (round, slot) =>
  round.nodes.filter((node) => node.parent === slot && node.fate !== "never_accepted");

export const nodeOf = (round, id) => round.nodes.find((node) => node.id === id);

/** The slot's own token, as text: a node's, or the last committed token's, or the prompt's last token. */
export function slotRaw(lane, round, slot) {
  const node = slot >= 0 ? nodeOf(round, slot) : null;
  if (node) return { text: visible(node.raw), prompt: false };
  if (round.firstToken > 0) return { text: visible(lane.tokens[round.firstToken - 1].raw), prompt: false };
  return { text: visible(lane.start ? lane.start.prompt_last_raw : ""), prompt: true };
}

export const decisionAt = (round, slot) => round.decisions.find((c) => c.slot === slot) || null;

/** The target's own token was its most probable one. Without a random number it may still have been sampled: a server
 *  does not say how. */
export const isArgmax = ({ last }) =>
  last.distributions ? last.distributions.scale === "before_argmax" : (last.uniform ?? null) === null;

/** Slots of a round worth opening, in the order in which the round came to them: decisions, then where `last` hangs. */
export function slotsOf(round) {
  const slots = round.decisions.map((c) => c.slot);
  if (!slots.includes(round.last.slot)) slots.push(round.last.slot);
  return slots;
}

/** The node selected when a slot opens: its first verified child, or the round's final token. */
export function defaultKey(round, slot) {
  const decision = decisionAt(round, slot);
  return decision && decision.children.length ? decision.children[0].node : "last";
}

/** The slot to open first: where the round was decided. */
export function defaultSlot(round) {
  const lost = round.decisions.find((c) => c.children.some((child) => !child.passed));
  return lost ? lost.slot : round.decisions.length ? round.decisions[0].slot : round.last.slot;
}
