// The opening: one recorded round in ten seconds, in four steps, then the race to its end. Any click or key ends it.
// With reduced motion, and to who has seen it, the four steps stand still.

import { button, h, setText } from "../base/dom.js";
import { counted, formatMs } from "../base/format.js";
import { keep, recall } from "../base/kept.js";
import { STAGES } from "../base/stages.js";
import { draftLane, meanRound, plainLane, defaultRound } from "../base/store.js";

const STEP_MS = 2500;

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
    this.steps = h("ol");
    this.pause = button("Pause", () => this.toggle());
    this.skip = button("Skip", () => this.end());
    this.play = button("Play the opening", () => this.start());
    this.pace = h("span.note");
    const controls = h("div.controls", this.pace, this.pause, this.play, this.skip);
    this.root = h("div.opening", { role: "group", "aria-label": "One round, step by step", hidden: true });
    this.root.append(this.steps, controls);
    for (const kind of ["pointerdown", "keydown"])
      document.addEventListener(kind, (event) => this.playing && this.left(event), true);
  }

  /** A run is shown: `first` is the recorded one that the page opens with. */
  offer(first) {
    clearTimeout(this.timer);
    this.playing = false;
    const { store } = this.host;
    const lane = draftLane(store);
    this.round = first ? openingRound(lane) : null;
    this.root.hidden = !this.round;
    if (!this.round) return;
    const words = openingWords(this.round, plainLane(store));
    const step = ([what, much], i) => h("li", { value: i + 1 }, h("b", what), " ", h("span.note", much));
    this.steps.replaceChildren(...words.map(step));
    setText(this.pace, `slowed ${Math.round((STEP_MS * STAGES.length) / (this.round.end - this.round.start))}×`);
    if (recall("opening", () => true) || this.host.transport.quiet.matches) this.still();
    else this.start();
  }

  start() {
    keep("opening", true);
    this.lane = draftLane(this.host.store);
    this.playing = true;
    this.paused = false;
    this.host.cursor.select(this.lane, this.round.index);
    this.show(0);
  }

  show(at) {
    this.at = at;
    clearTimeout(this.timer);
    this.host.cursor.toStage(STAGES[at]);
    this.host.transport.seek(at + 1 < STAGES.length ? this.round.start : this.round.end);
    this.paint();
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
    this.paint();
  }

  left(event) {
    if (!event.composedPath().includes(this.root)) this.end();
  }

  /** Its words are about one round: they keep their place, and are not told beside another. */
  beside(selection) {
    this.steps.classList.toggle("away", selection?.lane.rounds[selection.round] !== this.round);
  }

  paint() {
    this.root.classList.toggle("playing", this.playing);
    this.pause.hidden = this.skip.hidden = this.pace.hidden = !this.playing;
    setText(this.pause, this.paused ? "Go on" : "Pause");
    setText(this.play, this.playing ? "Replay" : "Play the opening");
    for (const [i, step] of [...this.steps.children].entries()) {
      step.classList.toggle("now", this.playing && i === this.at);
      if (this.playing && i === this.at) step.setAttribute("aria-current", "step");
      else step.removeAttribute("aria-current");
    }
    this.host.request();
  }
}
