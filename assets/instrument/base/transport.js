// Time, as it is shown: one clock that every view follows. It replays the lanes' own clocks at true speed or slowed;
// it never touches decoding, and the page states the speed beside it.
//
// `now` is a moment of the race clock in milliseconds. While a live run is shown at a slower speed than it is decoded,
// `now` lags behind what has arrived; where decoding is slower than the display, `now` waits for it.

import { isFinished, newStore, raceClock } from "./store.js";

const FIT_MS = 10000; // the default fits about ten seconds
const NICE = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100];
export const SPEEDS = [0, 1, 2, 5, 10, 20]; // slow-down; 0 is "fit"

export class Transport {
  /** `paint()` is called whenever `now` or the state has changed, `moved()` when a reader moves or starts the clock. */
  constructor(paint, moved) {
    this.paint = paint;
    this.moved = moved;
    this.store = newStore();
    this.now = 0;
    this.playing = false;
    this.frozen = false; // a reader has stopped it, until it is played on
    this.follow = true; // shows whatever arrives at once
    this.speed = 0;
    this.frame = 0;
    this.guide = null; // what plays a part of the run in steps of its own: { slow, paused, toggle(), end() }
    this.quiet = window.matchMedia("(prefers-reduced-motion: reduce)");
  }

  /** A new run is shown: from its beginning, paced, or at once. */
  begin(store, paced) {
    this.pause();
    this.store = store;
    this.now = 0;
    this.frozen = false;
    this.follow = !paced;
    if (paced && this.quiet.matches) this.follow = true;
    else if (paced) this.play();
  }

  get end() {
    return raceClock(this.store);
  }

  get whole() {
    return isFinished(this.store) && this.now >= this.end;
  }

  /** How many times slower than measured the display runs. Reading the prompt is not slowed. */
  get slow() {
    if (this.guide) return this.guide.slow;
    return this.speed || (this.now < firstRound(this.store) ? 1 : fit(this.store));
  }

  /** Something moves. */
  get runs() {
    return this.guide ? !this.guide.paused : this.playing;
  }

  /** Events have arrived. */
  arrived() {
    if (this.follow) this.now = this.end;
    this.paint();
  }

  play() {
    if (!this.playing && isFinished(this.store) && this.now >= this.end) this.now = 0;
    this.moved();
    this.follow = this.frozen = false;
    this.playing = true;
    this.last = null;
    this.schedule();
    this.paint();
  }

  pause() {
    this.playing = false;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.paint();
  }

  /** The picture stays where it is, whatever arrives. */
  freeze() {
    this.frozen = this.playing;
    this.pause();
  }

  toggle() {
    if (this.guide) this.guide.toggle();
    else if (this.playing) this.pause();
    else this.play();
  }

  seek(ms) {
    this.follow = false;
    this.now = Math.max(0, Math.min(ms, this.end));
    if (this.now >= this.end && !isFinished(this.store)) this.follow = true;
    this.paint();
  }

  scrub(ms) {
    this.pause();
    this.moved();
    this.seek(ms);
  }

  /** All that there is, and whatever comes. */
  toEnd() {
    this.guide?.still();
    this.moved();
    this.playing = this.frozen = false;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.follow = true;
    this.now = this.end;
    this.paint();
  }

  schedule() {
    if (this.quiet.matches) this.timer = setTimeout(() => this.stepOn(), 700);
    else this.frame = requestAnimationFrame((t) => this.tick(t));
  }

  tick(t) {
    if (!this.playing) return;
    const passed = this.last === null ? 0 : Math.min(t - this.last, 250);
    this.last = t;
    this.now = Math.min(this.now + passed / this.slow, this.end);
    this.stopAtEnd();
    this.paint();
  }

  /** Reduced motion: playback goes round by round. */
  stepOn() {
    if (!this.playing) return;
    const ends = this.store.lanes.flatMap((lane) => lane.rounds.map((r) => r.end)).filter((end) => end > this.now);
    this.now = ends.length ? Math.min(...ends) : this.end;
    this.stopAtEnd();
    this.paint();
  }

  stopAtEnd() {
    if (isFinished(this.store) && this.now >= this.end) this.playing = false;
    else this.schedule();
  }
}

/** When the first round of all lanes began. */
const firstRound = (store) => Math.min(...store.lanes.map((lane) => lane.rounds[0]?.start ?? Infinity));

/** The slow-down at which all rounds take about ten seconds; while they are decoded, an estimate from those so far. */
function fit(store) {
  let total = 0;
  for (const { rounds, tokens, clock, start, end } of store.lanes) {
    if (!rounds.length) continue;
    const wanted = end ? tokens.length : Number(start?.settings?.max_new_tokens ?? tokens.length);
    total = Math.max(total, ((clock - rounds[0].start) * wanted) / tokens.length);
  }
  if (!total) return 1;
  const wish = FIT_MS / total;
  return NICE.reduce((best, n) => (Math.abs(Math.log(n / wish)) < Math.abs(Math.log(best / wish)) ? n : best), 1);
}

export const speedName = (slow) => (slow === 1 ? "real time" : `slowed ${slow}×`);
