// <draftscope-instrument>: the one element that hosts it all, in an open shadow root.
//
// `feed(text)` takes a JSON delta: {"seq", "run", "ev": [events], "source", "paced", "state", "place", "note"}. A run
// replaces what is shown only when its first event arrives, so a refused run leaves the page as it was.

import { given } from "../base/given.js";
import { fromAddress } from "../base/address.js";
import { h, setText } from "../base/dom.js";
import { again, earlyDeltas } from "../base/host.js";
import { isChain } from "../base/numbers.js";
import { beatAt, beatOf, beatsOf, knownAt } from "../base/stages.js";
import { draftLane, fold, newStore, roundsAt, tellingKey, tellingRound, tellingSlot } from "../base/store.js";
import { themeCss } from "../base/theme.js";
import style from "../base/style.css" with { type: "css" };
import { Transport } from "../base/transport.js";
import { DecisionView } from "../decision/decision.js";
import { ForkBar } from "../decision/fork.js";
import { TrialView } from "../decision/trial.js";
import { addSaveMenu } from "../draw/pictures.js";
import { Unfold } from "../draw/unfold.js";
import { settingsArrived, showEngine } from "./page.js";
import { Scenes } from "./scenes.js";
import sceneStyle from "./scenes.css" with { type: "css" };
import { LessonPlayer } from "../lessons/player.js";
import lessonStyle from "../lessons/lessons.css" with { type: "css" };
import { CheckCard } from "../proof/check.js";
import { ExactView } from "../proof/exact.js";
import { WhyView } from "../proof/why.js";
import { RoundView } from "../round/round.js";
import { ScaleView } from "../round/scale.js";
import { CompareView } from "../run/compare.js";
import { LaneView } from "../run/lanes.js";
import { provenance } from "../run/provenance.js";
import { basisWords, sentence } from "../run/sentence.js";
import { nameDrafters } from "../run/titles.js";
import { StripView } from "../run/strip.js";

const NARROW = 700;
const FOLLOW_MS = 350; // while playing, the round beneath changes no faster than this

export class Instrument extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    const shadow = this.attachShadow({ mode: "open" });
    shadow.append(h("style", { text: themeCss() }));
    shadow.adoptedStyleSheets = [style, sceneStyle, lessonStyle];
    this.transport = new Transport(
      () => this.request(),
      () => this.follow(),
    );
    this.store = newStore();
    this.selection = null;
    this.following = true;
    this.lanes = [];
    this.runs = new Map(); // run id -> {next, waiting}
    this.build(shadow);
    this.theme();
    this.watch();
    this.request();
    this.scenes.to(Number(fromAddress("scene")) || 0);
    for (const text of earlyDeltas()) this.feed(text);
  }

  build(shadow) {
    const actions = {
      open: (slot, key) => this.open(slot, key),
      step: (by) => this.step(by),
      stage: (by) => this.stage(by),
      toStage: (stage) => this.toStage(stage),
      hide: () => this.hide(),
      light: (keys) => this.light(keys),
      repaint: () => this.request(),
    };
    const select = (lane, round) => this.select(lane, round);
    this.badge = h("span", { class: "badge" });
    this.what = h("span", {});
    this.doing = h("span", {});
    this.sentence = h("h2", { "aria-live": "off" });
    this.basis = h("p", { class: "note basis" });
    this.messageText = h("p", {});
    this.messageField = h("input", {
      readonly: true,
      "aria-label": "Link to this page with its settings",
      hidden: true,
    });
    this.messageOffer = h("button", {
      class: "small",
      type: "button",
      hidden: true,
      on: { click: () => this.offered() },
    });
    this.message = h(
      "div",
      { class: "message", hidden: true },
      this.messageText,
      this.messageField,
      this.messageOffer,
      h("button", {
        class: "small",
        type: "button",
        text: "Close",
        on: {
          click: () => {
            this.message.hidden = true;
          },
        },
      }),
    );
    this.status = h("div", { role: "status" }, this.message);
    this.lessons = new LessonPlayer(this);
    this.scenes = new Scenes(
      this,
      (name) => this.staged(name),
      (event) => this.keys(event),
    );
    this.lead = h(
      "header",
      { class: "lead" },
      h(
        "p",
        { class: "meta" },
        this.badge,
        this.what,
        this.doing,
        this.lessons.enter,
        this.scenes.enter,
        this.scenes.nav,
      ),
      this.sentence,
      this.basis,
    );
    this.laneBox = h("div", { class: "lanes" });
    this.strip = new StripView(this.transport, select);
    this.round = new RoundView(actions);
    this.contest = new DecisionView(actions);
    this.fork = new ForkBar();
    this.contest.root.append(this.fork.root);
    this.scale = new ScaleView(actions);
    this.why = new WhyView();
    this.compare = new CompareView(() => this.request());
    this.checked = new CheckCard(() => this.request());
    this.unfold = new Unfold(
      {
        "Toss it again": new TrialView(),
        "Why this fast": this.why,
        "Is it still the target": new ExactView(this.checked),
        Compare: this.compare,
      },
      () => this.request(),
    );
    const savable = {
      strip: this.strip,
      round: this.round,
      contest: this.contest,
      "round to scale": this.scale,
      formula: this.why.formula,
    };
    for (const [name, view] of Object.entries(savable))
      addSaveMenu(view.root, name, () => `${this.badge.textContent} · ${this.what.textContent} · Draftscope`);
    this.empty = h("p", { class: "empty", text: "Nothing has run yet. Press Run, or load a saved run." });
    this.sceneBox = h("div", { class: "scene-box", hidden: true }, h("h3", { class: "unseen", text: "Formula" }));
    this.noFormula = h("p", { class: "sum", text: "The formula is shown for a whole run beside plain decoding." });
    this.shown = h(
      "div",
      { class: "ds", style: { gap: "14px" } },
      this.lead,
      this.lessons.root,
      this.sceneBox,
      this.laneBox,
      this.strip.root,
      h("div", { class: "pair" }, this.round.root, this.contest.root, this.scale.root),
      this.unfold.root,
      keyLine(),
    );
    this.main = h(
      "section",
      {
        class: "ds",
        "aria-label": "Draftscope instrument",
        tabindex: "-1",
        on: { keydown: (event) => this.keys(event) },
      },
      this.status,
      this.empty,
      this.shown,
    );
    shadow.append(this.main);
  }

  /** A scene, or the page again: the formula, which lies folded away in the page, gets a place of its own. */
  staged(name) {
    const own = name === "formula";
    this.sceneBox.hidden = !own;
    if (own) this.sceneBox.append(this.why.formula.root, this.noFormula);
    else this.why.root.append(this.why.formula.root);
    this.theme();
    this.request();
  }

  /** The page's theme (Gradio's `.dark`), the system's own, and the width of the pane. */
  watch() {
    const follow = () => {
      this.theme();
      this.request();
    };
    for (const target of [document.documentElement, document.body])
      new MutationObserver(follow).observe(target, { attributes: true, attributeFilter: ["class"] });
    new ResizeObserver(() => this.request()).observe(this);
  }

  theme() {
    const dark =
      Boolean(this.closest(".dark")) ||
      document.body.classList.contains("dark") ||
      document.documentElement.classList.contains("dark");
    this.dataset.theme = dark ? "dark" : "light";
    this.colours = {
      ...given.theme[this.dataset.theme],
      sans: given.theme.sans,
      mono: given.theme.mono,
      ...this.scenes.look,
    };
  }

  // Events in.

  feed(text) {
    if (!text || text === this.heard) return;
    this.heard = text;
    let delta;
    try {
      delta = JSON.parse(text);
    } catch {
      return this.say("The page received something that is not a run; reload it to start afresh.");
    }
    this.receive(delta);
    if (delta.note !== undefined) this.say(delta.note); // last: a run that begins takes older messages away
  }

  receive(delta) {
    if (delta.titles) nameDrafters(delta.titles);
    if (delta.engine !== undefined) showEngine(delta.engine);
    if (delta.over) this.check(delta);
    if (delta.arrived) {
      this.arrived = true; // the address's settings stand in the controls
      settingsArrived();
      this.lessons.start(Number(fromAddress("lesson")));
    }
    if (delta.compare) this.compare.take(delta.compare);
    if (delta.check) this.checked.take(delta.check);
    if (delta.lesson) return this.lessons.arrive(delta.lesson, delta.ev, delta.sweep);
    if (delta.run === undefined) return this.request();
    if (delta.whole) return this.rebuild(delta);
    if (delta.seq === 0 && delta.joins) this.join(delta);
    else if (delta.seq === 0) {
      this.waiting = { run: delta.run, source: delta.source || "live", paced: Boolean(delta.paced) };
      this.runs.clear();
      this.runs.set(delta.run, { next: 0, held: new Map() });
    }
    if (!this.runs.has(delta.run) && this.isNewer(delta.run)) this.runs.set(delta.run, { next: 0, held: new Map() }); // its first delta was lost
    const order = this.runs.get(delta.run);
    if (!order) return;
    order.held.set(delta.seq, delta);
    while (order.held.has(order.next)) {
      this.take(order.held.get(order.next));
      order.held.delete(order.next++);
    }
    if (order.held.size)
      setTimeout(() => order.held.size && Math.min(...order.held.keys()) > order.next && again(), 1000);
  }

  /** A fork: its lane joins those of the run that is shown. */
  join(delta) {
    this.joining = delta.joins === this.shownRun ? delta.run : null;
    this.runs.set(delta.run, { next: 0, held: new Map() });
  }

  /** Runs are numbered by the host: r1, r2, ... */
  isNewer(run) {
    const number = (name) => Number(String(name).slice(1)) || 0;
    return [...this.runs.keys()].every((known) => number(known) < number(run));
  }

  /** A run is over: where a delta of it never came, the whole run is asked for. */
  check(delta) {
    setTimeout(() => {
      const order = this.runs.get(delta.over);
      if (order ? order.next < delta.sent : this.isNewer(delta.over)) again();
    }, 1000);
  }

  /** The run from its beginning, in one delta; `seq` says how many it stands for. */
  rebuild(delta) {
    const held = this.runs.get(delta.run)?.held || new Map();
    this.runs.clear();
    this.runs.set(delta.run, { next: delta.seq, held: new Map([...held].filter(([seq]) => seq >= delta.seq)) });
    this.waiting = { run: delta.run, source: delta.source, paced: false };
    this.take(delta);
    this.stepped = delta.state === "stepping";
  }

  take(delta) {
    this.state = delta.state || this.state;
    this.place = delta.place || 0;
    const events = delta.ev || [];
    if (events.length && this.waiting && this.waiting.run === delta.run) this.begin();
    if (events.length && this.joining === delta.run) {
      this.joining = null;
      this.shownRun = delta.run;
      if (!this.own) this.transport.toEnd(); // the fork is shown as it comes
    }
    if (events.length && delta.run !== this.shownRun) return;
    const store = this.own || this.store;
    for (const event of events) fold(store, event);
    if (delta.state === "done" && delta.run === this.shownRun) store.over = true;
    if (this.own) return; // a lesson is shown; the run waits behind it
    if (
      events.some(
        (event) =>
          event.kind === "run_end" && event.reason !== "length" && event.reason !== "eos" && event.reason !== "stop",
      )
    )
      this.transport.toEnd();
    if (events.length) this.transport.arrived();
    else this.request();
  }

  begin() {
    const { source, run, paced } = this.waiting;
    this.waiting = null;
    if (this.own) this.lessons.close();
    this.own = null;
    this.shownRun = run;
    this.stepped = !paced;
    this.message.hidden = true;
    this.change(Object.assign(newStore(), { source }), paced);
  }

  /** A lesson's run is shown for a while; the page's own waits. */
  borrow(store) {
    this.own = this.own || this.store;
    this.change(store, false);
    this.transport.toEnd();
  }

  giveBack() {
    const { own } = this;
    this.own = null;
    this.change(own, false);
    this.transport.toEnd();
  }

  /** Another run takes the place of what is shown. */
  change(store, paced) {
    this.store = store;
    this.selection = null;
    this.reader = null; // the lane that the reader chose a round of
    this.following = true;
    this.hiding = false;
    this.settled = false;
    this.transport.begin(store, paced);
    this.lanes = [];
    this.laneBox.replaceChildren();
  }

  /** One sentence for the reader; beside it a `link` as selectable text, an `offer` {text, act} as a button. */
  say(text, link, offer) {
    setText(this.messageText, text || "");
    this.message.hidden = !text;
    this.messageOffer.hidden = !offer;
    this.offered = offer ? offer.act : null;
    setText(this.messageOffer, offer ? offer.text : "");
    this.messageField.hidden = !link;
    this.messageField.value = link || "";
    if (link) this.messageField.select();
  }

  // Selection: lane, round, contest (slot) and node (key), and the beat up to which the round is shown; null is the clock's.

  select(lane, round) {
    this.following = false;
    this.reader = lane;
    const kept = this.selection && this.selection.lane === lane && this.selection.round === round;
    if (!kept) this.choose(lane, round);
    const chosen = lane.rounds[round];
    if (this.hiding) this.toBeat(beatOf(chosen, "verify"));
    else {
      if (this.selection.beat !== null) this.selection = { ...this.selection, beat: null };
      if (chosen.end > this.transport.now) this.transport.seek(chosen.end);
    }
    this.request();
  }

  choose(lane, index) {
    const round = lane.rounds[index];
    if (!round) {
      this.selection = null;
      return;
    }
    const slot = tellingSlot(round);
    this.selection = { lane, round: index, slot, key: tellingKey(round, slot), beat: null };
  }

  open(slot, key) {
    if (!this.selection) return;
    this.following = false;
    this.selection = { ...this.selection, slot, key: key === null ? tellingKey(this.current, slot) : key, lit: null };
    this.request();
  }

  /** Nodes that something else on the page is about, until another is chosen. */
  light(keys) {
    const nodes = this.current.nodes.filter((n) => keys.includes(n.id));
    const lead = (this.knowledge().verdict && nodes.find((n) => n.fate === "accepted")) || nodes[0];
    if (lead) this.open(lead.parent, lead.id);
    this.selection = { ...this.selection, lit: new Set(keys) };
    this.request();
  }

  get current() {
    return this.selection ? this.selection.lane.rounds[this.selection.round] : null;
  }

  step(by) {
    const at = this.selection;
    if (!at) return;
    const to = Math.max(0, Math.min(at.round + by, at.lane.rounds.length - 1));
    if (this.transport.playing) this.transport.pause();
    this.select(at.lane, to);
  }

  // Stages: the same clock, moved inside a round.

  /** One beat on or back; past a round's commit comes the next round's draft. */
  stage(by) {
    const at = this.selection;
    if (!at) return;
    const last = beatsOf(this.current).length - 1;
    const from =
      at.beat ??
      (this.current.end <= this.transport.now ? (by > 0 ? -1 : last) : beatAt(this.current, this.transport.now));
    const to = from + by;
    if (to >= 0 && to <= last) return this.toBeat(to);
    const next = at.lane.rounds[at.round + by];
    if (!next) return;
    this.choose(at.lane, next.index);
    this.toBeat(by > 0 ? 0 : beatsOf(next).length - 1);
  }

  toStage(stage) {
    if (this.selection) this.toBeat(beatOf(this.current, stage));
  }

  toBeat(index) {
    const beat = beatsOf(this.current)[index];
    if (this.transport.playing) this.transport.pause();
    this.following = false;
    this.reader = this.selection.lane;
    const judged = beat.stage === "judge";
    const slot = judged ? beat.slot : beat.stage === "commit" ? this.selection.slot : -1;
    const key = judged ? (beat.last ? "last" : beat.nodes[0]) : beat.stage === "commit" ? this.selection.key : -1;
    this.selection = { ...this.selection, beat: index, slot, key };
    this.transport.seek(beat.at);
  }

  /** Rounds open before their verdict, so that it can be predicted; a second time they tell it again. */
  hide() {
    if (!this.selection) return;
    this.hiding = !this.hiding;
    this.select(this.selection.lane, this.selection.round);
  }

  /** The reader moved the clock: the round shown is the clock's again, and nothing is hidden. */
  follow() {
    this.following = true;
    this.hiding = false;
    if (this.selection) this.selection = { ...this.selection, beat: null };
  }

  keys(event) {
    const target = event.composedPath()[0];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const writes = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
    const staged = writes && target.type !== "range" ? null : this.scenes.key(event);
    if (writes && !staged) return;
    const act =
      staged ||
      {
        ArrowLeft: () => this.step(-1),
        ArrowRight: () => this.step(1),
        ",": () => this.step(-1),
        ".": () => this.step(1),
        Home: () => this.step(-1e9),
        End: () => this.step(1e9),
        p: () => this.transport.toggle(),
        Escape: () => this.transport.toEnd(),
        "[": () => this.stage(-1),
        "]": () => this.stage(1),
        v: () => this.hide(),
        t: () => this.round.show("tree"),
        m: () => this.round.show("mask"),
      }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    const scrolls =
      target.classList && ["pane", "contest-body", "node-table"].some((name) => target.classList.contains(name));
    if (!act || (scrolls && /^(Home|End)$/.test(event.key))) return;
    event.preventDefault();
    act();
  }

  /** Unless the reader chose a round: the clock's own, the newest while it plays; at the end, a telling one. */
  followRound() {
    const lane = this.reader || draftLane(this.store) || this.store.lanes[0];
    if (!this.following || !lane || !lane.rounds.length) return;
    const { transport } = this;
    if (transport.whole && this.state !== "stepping") {
      if (!this.settled) this.choose(lane, tellingRound(lane).index);
      this.settled = true;
      return;
    }
    this.settled = false;
    const past = roundsAt(lane, transport.now);
    const begun = lane.rounds[past] && lane.rounds[past].start < transport.now;
    const index = !transport.playing && !transport.follow && begun ? past : past - 1;
    if (index < 0) {
      this.selection = null;
      return;
    }
    const time = performance.now();
    const soon = transport.playing && time - (this.followed || 0) < FOLLOW_MS;
    if (this.selection && (soon || (this.selection.lane === lane && this.selection.round === index))) return;
    this.followed = time;
    this.choose(lane, index);
  }

  /** What is known of the selected round: up to its beat, or up to the clock. */
  knowledge() {
    const round = this.current;
    if (!round) return null;
    const { now, playing } = this.transport;
    return knownAt(round, this.selection.beat ?? (playing || round.end <= now ? Infinity : beatAt(round, now)));
  }

  // Painting: once a frame at most.

  request() {
    if (this.asked) return;
    this.asked = true;
    const paint = () => {
      if (!this.asked) return;
      this.asked = false;
      try {
        this.paint();
      } catch (error) {
        console.error(error);
        this.say("This run holds something the page cannot draw; the rest of it is shown.");
      }
    };
    requestAnimationFrame(paint);
    if (document.hidden) setTimeout(paint, 200);
  }

  paint() {
    const { store, transport } = this;
    const any = store.lanes.length > 0;
    this.empty.hidden = any;
    this.shown.hidden = !any;
    this.paintStatus();
    if (!any) return;
    this.followRound();
    const { now, whole } = transport;
    setText(this.sentence, sentence(store, now, whole));
    const soloState = this.soloState();
    setText(this.basis, basisWords(store, now, whole, soloState));
    this.paintLanes(now);
    const known = this.knowledge();
    this.strip.paint(store, now, this.selection, known, this.hiding, this.colours);
    this.round.paint(this.selection, known, this.clientWidth < NARROW, this.hiding, this.colours);
    this.contest.paint(this.selection, known);
    this.fork.paint(store, this.selection, known, this.busy);
    this.scale.paint(store, this.selection, known);
    if (this.scenes.at && this.selection) this.main.dataset.shape = isChain(this.selection.lane) ? "chain" : "tree";
    const state = { store, now, whole, soloState, selection: this.selection, known, busy: this.busy };
    this.unfold.paint(state);
    if (this.sceneBox.hidden) return;
    this.why.paint(state);
    this.noFormula.hidden = !this.why.formula.root.hidden;
  }

  /** The engine does something for this reader already. */
  get busy() {
    return (this.state || "done") !== "done" || this.compare.running || this.checked.running;
  }

  /** Whole solo runs follow a live race, unless it is stepped through or was stopped. */
  soloState() {
    if (this.store.source === "recorded" || this.stepped) return "";
    if (this.store.lanes.some((lane) => lane.end && lane.end.reason === "cancelled")) return "";
    return this.state === "solo" ? "running" : this.state === "done" ? "" : "later";
  }

  paintStatus() {
    const { store } = this;
    const lead = draftLane(store) || store.lanes[0];
    const recorded = store.source === "recorded";
    const stepping = this.state === "stepping" && !recorded;
    this.badge.hidden = !lead;
    this.badge.className = recorded ? "badge recorded" : "badge";
    setText(this.badge, recorded ? "recorded" : stepping ? "live · stepping" : "live");
    setText(this.what, lead && lead.start ? provenance(lead.start) : "");
    const words = {
      queued: this.place > 0 ? `· in the queue, ${this.place} before you` : "· in the queue",
      running: recorded ? "" : "· decoding",
      stepping: "· waits for the next step",
      solo: "· timing whole solo runs",
      waiting: "· waiting for the engine",
    };
    setText(this.doing, words[this.state] || "");
    if (!lead)
      setText(
        this.empty,
        this.state in words
          ? words[this.state].slice(2) + " …"
          : "Nothing has run yet. Press Run, or load a saved run.",
      );
  }

  paintLanes(now) {
    for (let i = this.lanes.length; i < this.store.lanes.length; i++) {
      const view = new LaneView(this.store.lanes[i], (lane, round) => this.select(lane, round));
      this.lanes.push(view);
      this.laneBox.append(view.root);
    }
    for (const view of this.lanes) view.paint(now, this.selection);
  }
}

const KEYS = [
  ["← →", "rounds"],
  ["[ ]", "stages"],
  ["P", "play"],
  ["Esc", "to the end"],
  ["V", "hide the verdict"],
  ["T M", "tree, mask"],
  ["F", "fold a node"],
];

const keyLine = () =>
  h(
    "p",
    { class: "note keys" },
    "Keys, while the instrument has focus: ",
    KEYS.flatMap(([key, does], i) => [i ? " · " : "", h("kbd", { text: key }), ` ${does}`]),
  );
