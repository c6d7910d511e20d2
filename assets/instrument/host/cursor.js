// Where the reader is: a round of a lane, in it a decision (slot) and a node (key), and the beat up to which the round
// is shown; without a beat the clock decides.

import { beatAt, beatOf, beatsOf, knownAt } from "../base/stages.js";
import { draftLane, roundsAt, defaultKey, defaultRound, defaultSlot } from "../base/store.js";

const FOLLOW_MS = 350; // while playing, the round shown changes no faster than this

export class Cursor {
  /** `moved()` is called whenever something else is to be shown. */
  constructor(transport, moved) {
    Object.assign(this, { transport, moved });
    this.reset();
  }

  /** Another run is shown. */
  reset() {
    this.at = null; // {lane, round, slot, key, beat, lit}
    this.reader = null; // the lane that the reader chose a round of
    this.following = true; // the round shown is the clock's
    this.hiding = false; // rounds open before their result
    this.settled = false;
  }

  /** Where the reader is, as words of the address; null while the round shown is the clock's. */
  get place() {
    if (this.following || !this.at) return null;
    const { round, key, beat } = this.at;
    return { round: round + 1, node: key, stage: beat === null ? null : beatsOf(this.round)[beat].stage };
  }

  /** The place that an address names, in that lane; what is not there is passed over. */
  goTo(lane, { round, node, stage }) {
    const targetRound = lane?.rounds[Number(round) - 1];
    if (!targetRound) return;
    this.select(lane, targetRound.index);
    if (beatsOf(targetRound).some((beat) => beat.stage === stage)) this.toStage(stage);
    const targetNode = targetRound.nodes.find((n) => String(n.id) === node);
    if (targetNode) this.open(targetNode.parent, targetNode.id);
    else if (node === "last") this.open(targetRound.last.slot, "last");
  }

  get round() {
    return this.at ? this.at.lane.rounds[this.at.round] : null;
  }

  select(lane, index) {
    this.following = false;
    this.reader = lane;
    const kept = this.at && this.at.lane === lane && this.at.round === index;
    if (!kept) this.choose(lane, index);
    const chosen = lane.rounds[index];
    if (this.hiding) this.toBeat(beatOf(chosen, "verify"));
    else {
      if (this.at.beat !== null) this.at = { ...this.at, beat: null };
      if (chosen.end > this.transport.now) this.transport.seek(chosen.end);
    }
    this.moved();
  }

  choose(lane, index) {
    const round = lane.rounds[index];
    if (!round) {
      this.at = null;
      return;
    }
    const slot = defaultSlot(round);
    this.at = { lane, round: index, slot, key: defaultKey(round, slot), beat: null };
  }

  open(slot, key) {
    if (!this.at) return;
    this.following = false;
    this.at = { ...this.at, slot, key: key === null ? defaultKey(this.round, slot) : key, lit: null };
    this.moved();
  }

  /** The decision and node of the round that is shown, as a lesson sets them: nothing else changes. */
  point(slot, key) {
    this.at = { ...this.at, slot, key };
  }

  /** Nodes that something else on the page is about, until another is chosen. */
  light(keys) {
    const nodes = this.round.nodes.filter((n) => keys.includes(n.id));
    const lead = (this.known().result && nodes.find((n) => n.fate === "accepted")) || nodes[0];
    if (lead) this.open(lead.parent, lead.id);
    this.at = { ...this.at, lit: new Set(keys) };
    this.moved();
  }

  step(by) {
    if (!this.at) return;
    const to = Math.max(0, Math.min(this.at.round + by, this.at.lane.rounds.length - 1));
    if (this.transport.playing) this.transport.pause();
    this.select(this.at.lane, to);
  }

  // Stages: the same clock, moved inside a round.

  /** One beat on or back; past a round's commit comes the next round's draft. */
  stage(by) {
    const { at, round } = this;
    if (!at) return;
    const last = beatsOf(round).length - 1;
    const { now } = this.transport;
    const from = at.beat ?? (round.end <= now ? (by > 0 ? -1 : last) : beatAt(round, now));
    const to = from + by;
    if (to >= 0 && to <= last) {
      this.toBeat(to);
      return;
    }
    const next = at.lane.rounds[at.round + by];
    if (!next) return;
    this.choose(at.lane, next.index);
    this.toBeat(by > 0 ? 0 : beatsOf(next).length - 1);
  }

  toStage(stage) {
    if (this.at) this.toBeat(beatOf(this.round, stage));
  }

  toBeat(index) {
    const beat = beatsOf(this.round)[index];
    if (this.transport.playing) this.transport.pause();
    this.following = false;
    this.reader = this.at.lane;
    const decided = beat.stage === "accept";
    const slot = decided ? beat.slot : beat.stage === "commit" ? this.at.slot : -1;
    const key = decided ? (beat.last ? "last" : beat.nodes[0]) : beat.stage === "commit" ? this.at.key : -1;
    this.at = { ...this.at, beat: index, slot, key };
    if (beat.at > this.transport.now) this.transport.seek(beat.at);
    this.moved();
  }

  /** The round is shown up to a stage, or before its result. */
  get partial() {
    return Boolean(this.at) && this.at.beat !== null && (this.hiding || !this.committed);
  }

  get committed() {
    return this.at.beat === beatsOf(this.round).length - 1;
  }

  /** The moment up to which a partly shown round tells what happened; else the clock's own. */
  get shown() {
    const { now } = this.transport;
    return this.partial ? Math.min(now, beatsOf(this.round)[this.at.beat].at) : now;
  }

  /** The first token of a lane that a partly shown round does not tell yet. */
  get untold() {
    if (!this.partial) return Infinity;
    return this.committed ? this.round.tokensAfter : this.round.firstToken;
  }

  /** The round with its result again. */
  showAll() {
    this.hiding = false;
    if (this.at) this.at = { ...this.at, beat: null };
    this.moved();
  }

  /** Rounds open before their result, so that it can be predicted; a second time they tell it again. */
  hide() {
    if (!this.at) return;
    this.hiding = !this.hiding;
    this.select(this.at.lane, this.at.round);
  }

  /** The reader moved the clock: the round shown is the clock's again, and nothing is hidden. */
  followClock() {
    this.following = true;
    this.hiding = false;
    if (this.at) this.at = { ...this.at, beat: null };
  }

  /** Unless the reader chose a round: the clock's own, the newest while it plays; at the end, the default one. */
  catchUp(store, stepping) {
    const lane = this.reader || draftLane(store) || store.lanes[0];
    if (!this.following || !lane || !lane.rounds.length) return;
    const { transport } = this;
    if (transport.whole && !stepping) {
      if (!this.settled) this.choose(lane, defaultRound(lane).index);
      this.settled = true;
      return;
    }
    this.settled = false;
    const past = roundsAt(lane, transport.now);
    const begun = lane.rounds[past] && lane.rounds[past].start < transport.now;
    const index = !transport.playing && !transport.follow && begun ? past : past - 1;
    if (index < 0) {
      this.at = null;
      return;
    }
    const time = performance.now();
    const soon = transport.playing && time - (this.followed || 0) < FOLLOW_MS;
    if (this.at && (soon || (this.at.lane === lane && this.at.round === index))) return;
    this.followed = time;
    this.choose(lane, index);
  }

  /** What is known of the round: up to its beat, or up to the clock. */
  known() {
    const { round } = this;
    if (!round) return null;
    const { now, playing } = this.transport;
    return knownAt(round, this.at.beat ?? (playing || round.end <= now ? Infinity : beatAt(round, now)));
  }
}
