// The opening: one recorded round in ten seconds, in four steps, then the race to its end. Any click or key ends it.
// With reduced motion, and to who has seen it, the four steps stand still.

import { h } from "../base/dom.js";
import { counted, formatMs } from "../base/format.js";
import { askHost, hostCan } from "../base/host.js";
import { keep, recall } from "../base/kept.js";
import { STAGES } from "../base/stages.js";
import { draftLane, meanRound, plainLane, defaultRound } from "../base/store.js";
import { smallButton } from "../base/templates.js";
import { html, nothing, render } from "../vendor/lit-html.js";

const STEP_MS = 2500;

/** The recorded runs that the page opens with, by name: at temperature 0, and sampled. */
export const PICTURES = ["first", "sampled"];
const NEXT = { first: ["sampled", "The same, sampled"], sampled: ["first", "The same at temperature 0"] };

/** The round that tells it: the one to look at first, where a token was accepted; else null. */
function openingRound(lane) {
  const round = lane && defaultRound(lane);
  return round?.accepted > 0 && !round.cut ? round : null;
}

/** Four steps: [what happens, how much of it]. */
function openingWords(round, plain) {
  const draft = round.timings.propose.reduce((sum, ms) => sum + ms, 0);
  const guesses = `${round.drafted} ${round.drafted === 1 ? "guess" : "guesses"}`;
  const oneToken = plain ? ` One token alone: ${formatMs(meanRound(plain))}.` : "";
  const corrected = round.last.kind === "correction";
  return [
    ["The small model guesses ahead.", `${guesses}: ${formatMs(draft)}.`],
    ["The large model checks all in one pass.", `${guesses}: ${formatMs(round.timings.verify)}.${oneToken}`],
    ["What it agrees with is kept.", `${counted(round.accepted, "token")} along one path. The rest is thrown away.`],
    [
      corrected ? "The first miss it replaces itself." : "The same pass adds a token of its own.",
      `${counted(round.emitted.length, "token")} for one pass, and the text stays its own.`,
    ],
  ];
}

export class Opening {
  /** `host` is the element. */
  constructor(host) {
    this.host = host;
    this.root = h("div.opening", { role: "group", "aria-label": "One round, step by step", hidden: true });
    for (const kind of ["pointerdown", "keydown"])
      document.addEventListener(kind, (event) => this.playing && this.left(event), true);
  }

  /** A run is shown: `first` is the recorded one that the page opens with. */
  offer(first) {
    clearTimeout(this.timer);
    this.playing = false;
    this.round = first ? openingRound(draftLane(this.host.store)) : null;
    this.root.hidden = !this.round;
    this.host.transport.guide = null;
    if (!this.round) return;
    if (this.host.store.run !== "first") this.settle();
    else if (recall("opening", () => true) || this.host.transport.quiet.matches) this.still();
    else this.start();
  }

  start() {
    keep("opening", true);
    this.lane = draftLane(this.host.store);
    this.playing = true;
    this.paused = false;
    this.host.transport.guide = this;
    this.host.cursor.select(this.lane, this.round.index);
    this.show(0);
  }

  /** The second picture stands still. */
  settle() {
    this.still();
    this.host.transport.toEnd();
  }

  /** Asks for the other picture; the controls follow. */
  turn() {
    askHost("picture", { run: NEXT[this.host.store.run][0] });
  }

  show(at) {
    this.at = at;
    clearTimeout(this.timer);
    this.host.cursor.toStage(STAGES[at]);
    this.host.transport.seek(at + 1 < STAGES.length ? this.round.start : this.round.end);
    this.host.request();
    if (!this.paused)
      this.timer = setTimeout(() => (at + 1 < STAGES.length ? this.show(at + 1) : this.race()), STEP_MS);
  }

  toggle() {
    this.paused = !this.paused;
    this.show(this.at);
  }

  /** After the round the race, from its beginning to its end. */
  race() {
    this.still();
    this.host.transport.now = 0;
    this.host.transport.play();
  }

  end() {
    this.still();
    this.host.transport.toEnd();
  }

  still() {
    clearTimeout(this.timer);
    this.playing = false;
    this.host.transport.guide = null;
    this.host.request();
  }

  /** The clock's own controls and key go on with it. */
  left(event) {
    const path = event.composedPath();
    const clock = [this.root, this.host.strip.controls].some((part) => path.includes(part));
    if (!clock && event.key?.toLowerCase() !== "p") this.end();
  }

  /** How many times slower than measured its round is played. */
  get slow() {
    return Math.round((STEP_MS * STAGES.length) / (this.round.end - this.round.start));
  }

  /** Its words are about one round: they keep their place, and are not told beside another. */
  paint(selection) {
    const { round, playing } = this;
    if (!round) return;
    const away = selection?.lane.rounds[selection.round] !== round;
    const step = ([what, much], i) => {
      const now = playing && i === this.at;
      return html`<li value=${i + 1} class=${now ? "now" : nothing} aria-current=${now ? "step" : nothing}>
        <b>${what}</b> <span class="note">${much}</span>
      </li>`;
    };
    const next = NEXT[this.host.store.run];
    const view = html`
      <ol class=${away ? "away" : nothing}>
        ${openingWords(round, plainLane(this.host.store)).map(step)}
      </ol>
      <div class="controls">
        ${smallButton("Play the opening", () => this.start(), playing)}
        ${next && hostCan("picture") ? smallButton(next[1], () => this.turn()) : nothing}
      </div>
    `;
    this.root.classList.toggle("playing", playing);
    render(view, this.root);
  }
}
