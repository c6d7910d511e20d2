// <draftscope-instrument>: the one element that hosts it all, in an open shadow root.
//
// `feed(text)` takes a JSON delta: {"seq", "run", "ev": [events], "source", "paced", "state", "waits", "note"}.
// A run replaces what is shown only when its first event arrives, so a refused run leaves the page as it was.

import { fromAddress, namesRun, setInAddress } from "../base/address.js";
import { h } from "../base/dom.js";
import { given } from "../base/given.js";
import { earlyDeltas, fetchRest, hostCan, pressStop } from "../base/host.js";
import { isChain } from "../base/numbers.js";
import { draftLane, fold, isFinished, isInside, newStore, ofServers } from "../base/store.js";
import { Transport } from "../base/transport.js";
import { DecisionView } from "../decision/decision.js";
import { ForkBar } from "../decision/fork.js";
import { TrialView } from "../decision/trial.js";
import { addSaveMenu } from "../draw/pictures.js";
import { Unfold } from "../draw/unfold.js";
import { MeasuredServers } from "../servers/measured.js";
import { ReconstructedView } from "../servers/reconstructed.js";
import { ExactView } from "../proof/exact.js";
import { WhyView } from "../proof/why.js";
import { BesideView } from "../round/beside.js";
import { RoundView } from "../round/round.js";
import { ScaleView } from "../round/scale.js";
import { longestGap } from "../run/heartbeat.js";
import { LaneView } from "../run/lanes.js";
import { StripView } from "../run/strip.js";
import { nameDrafters } from "../run/titles.js";
import { Cards } from "./cards.js";
import { Cursor } from "./cursor.js";
import { RunLog } from "./deltas.js";
import { doorNow, onDoor, openDoor } from "./doors.js";
import { giveDrafters } from "./drafters.js";
import { leaveFront } from "./front.js";
import { keyLine, pressKey } from "./keys.js";
import { Lead } from "./lead.js";
import { Message } from "./message.js";
import { settingsArrived, showEngine } from "./page.js";
import { showTaught, teaching } from "./teach.js";
import { Opening, PICTURES } from "./opening.js";
import { carriesRun, openCarried, Runs } from "./runs.js";
import { Scenes } from "./scenes.js";
import { sheets, themeCss } from "./styles.js";
import { findRun } from "./tab.js";

const NARROW = 700;
const PHONE = 560; // style.css has it too
const LATER = ["queued", "waiting"]; // states of a run that has not begun
const ENDS = ["length", "eos", "stop"]; // of a run that went to its end

/** A race of servers is watched where it was started. */
const servesHere = (door, store) => door === "servers" && (ofServers(store) || store.lanes.some(isInside));

export class Instrument extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    const shadow = this.attachShadow({ mode: "open" });
    shadow.append(h("style", themeCss()));
    shadow.adoptedStyleSheets = sheets();
    this.request = this.request.bind(this);
    this.transport = new Transport(this.request, () => this.cursor.followClock());
    this.cursor = new Cursor(this.transport, () => this.moved());
    this.log = new RunLog(fetchRest);
    this.runs = new Runs();
    this.store = newStore();
    this.lanes = [];
    this.makeViews();
    this.layOut();
    shadow.append(this.main);
    this.theme();
    this.watch();
    onDoor(() => this.entered());
    this.entered();
    this.scenes.to(Number(fromAddress("scene")) || 0);
    if (fromAddress("round"))
      this.sought = Object.fromEntries(["round", "node", "stage"].map((name) => [name, fromAddress(name)]));
    for (const text of earlyDeltas()) this.feed(text);
  }

  makeViews() {
    const { cursor } = this;
    const actions = {
      open: (slot, key) => cursor.open(slot, key),
      step: (by) => cursor.step(by),
      stage: (by) => cursor.stage(by),
      toStage: (stage) => cursor.toStage(stage),
      hide: () => cursor.hide(),
      showAll: () => cursor.showAll(),
      light: (keys) => cursor.light(keys),
      repaint: this.request,
    };
    this.message = new Message();
    this.keys = (event) => pressKey(event, this);
    this.scenes = new Scenes(this, (name) => this.staged(name), this.keys);
    this.guest = null; // a card's view whose own recorded run is shown, while the page's waits
    this.cards = new Cards(this);
    this.strip = new StripView(this.transport, (lane, round) => cursor.select(lane, round));
    this.opening = new Opening(this);
    this.beside = new BesideView((lane, round) => cursor.select(lane, round), this.request);
    this.round = new RoundView(actions, this.opening.root, this.beside.button);
    this.fork = new ForkBar();
    this.decision = new DecisionView(actions, this.fork.root);
    this.scale = new ScaleView(actions);
    this.why = new WhyView();
    this.measured = new MeasuredServers();
    this.reconstructed = new ReconstructedView();
    const parts = {
      Resample: new TrialView((lane, { round, slot }) => {
        cursor.select(lane, round);
        cursor.open(slot, null);
      }),
      "Why this fast": this.why,
      "Is it exact?": new ExactView(this.cards.in("exact")),
      ...Object.fromEntries(this.cards.in("unfold").map(({ title, view }) => [title, view])),
    };
    this.unfold = new Unfold(parts, this.request);
    this.lead = new Lead(this.scenes.run.root, this.unfold.buttons, this.scenes.enter, this.scenes.nav);
  }

  layOut() {
    const saved = { strip: this.strip, round: this.round, decision: this.decision, "round time": this.scale };
    for (const [name, view] of Object.entries({ ...saved, formula: this.why.formula }))
      addSaveMenu(view.root, name, () => this.lead.origin);
    this.laneBox = h("div.lanes");
    this.laneBox.addEventListener("scroll", ({ target }) => this.scrolled(target), true);
    this.sceneBox = h("div.scene-box", { hidden: true }, h("h3.unseen", "Formula"));
    this.noFormula = h("p.sum", "The speedup model needs a finished run with a plain lane.");
    this.strip.line.append(this.lead.what);
    this.trees = [this.round.root, this.beside.root];
    this.pair = h("div.pair", this.trees, this.decision.root, this.scale.root);
    this.race = h("div.race", this.laneBox, this.strip.root);
    this.keyLine = keyLine();
    this.shown = h(
      "div.ds.run",
      this.lead.root,
      this.cards.all.map(({ view }) => view.panel),
      this.sceneBox,
      this.race,
      this.measured.root,
      this.pair,
      this.cards.in("run").map(({ view }) => view.root),
      this.reconstructed.root,
      this.unfold.root,
      this.keyLine,
    );
    this.boxes = Object.keys(given.doors).map((door) => this.boxOf(door));
    this.parts = this.partsOfRun();
    this.main = h(
      "section.ds",
      { "aria-label": "Draftscope instrument", tabindex: "-1", on: { keydown: this.keys } },
      this.message.root,
      this.cards.in("top").map(({ view }) => view.root),
      this.lead.top,
      this.boxes.map(({ root }) => root),
      this.lead.nothing,
      this.shown,
    );
  }

  /** What stands behind a door, card after card. */
  boxOf(door) {
    const title = `${door[0].toUpperCase()}${door.slice(1)}`;
    const views = this.cards.behind(door).map(({ view }) => view);
    return {
      door,
      views,
      root: h(
        "section.door-box",
        { "aria-label": title },
        views.map((view) => view.root),
      ),
    };
  }

  /** Every picture of a run: in which scenes it stands, and the word by which a step of a lesson shows it. */
  partsOfRun() {
    const round = ["scale", "decision", "tree"];
    const part = (root, scenes, lesson) => ({ root, scenes, lesson });
    return [
      part(this.laneBox, ["race"], "lanes"),
      part(this.strip.root, ["race", "strip"], "strip"),
      part(this.round.root, round, "tree"),
      part(this.beside.root, round, "tree"),
      part(this.decision.root, ["decision"], "decision"),
      part(this.fork.root, ["decision"]),
      part(this.scale.root, ["scale"], "scale"),
      part(this.measured.root, [], "measured"),
      part(this.reconstructed.root, [], "reconstructed"),
      part(this.unfold.root, [], "trial"),
      part(this.lead.what, []),
      part(this.keyLine, []),
      ...this.cards.in("run").map(({ view, scenes, lesson }) => part(view.root, scenes, lesson)),
    ];
  }

  /** A scene or a step of a lesson shows some of the pictures; `data-away` hides the others. */
  showParts() {
    const { name } = this.scenes;
    const { show } = this.main.dataset;
    const words = show?.split(" ");
    for (const { root, scenes = [], lesson } of this.parts)
      root.toggleAttribute("data-away", name ? !scenes.includes(name) : Boolean(words) && !words.includes(lesson));
  }

  /** A scene, or the page again: the formula, which lies folded away in the page, gets a place of its own. */
  staged(name) {
    const isFormula = name === "formula";
    this.sceneBox.hidden = !isFormula;
    if (isFormula) this.sceneBox.append(this.why.formula.root, this.noFormula);
    else this.why.root.append(this.why.formula.root);
    if (name) this.lead.foot.append(this.strip.controls);
    else this.strip.earlier.after(this.strip.controls); // before the button that saves
    this.theme();
    this.request();
  }

  /** The page's controls have changed, and with them the form of a scene. */
  refit() {
    this.scenes.makeRoom();
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
    new ResizeObserver(this.request).observe(this);
  }

  theme() {
    const { theme } = given;
    const page = [document.body, document.documentElement];
    const dark = Boolean(this.closest(".dark")) || page.some((element) => element.classList.contains("dark"));
    this.dataset.theme = dark ? "dark" : "light";
    this.colours = { ...theme[this.dataset.theme], sans: theme.sans, mono: theme.mono, ...this.scenes.look };
  }

  /** To the composer. */
  toWatch() {
    openDoor("watch");
  }

  /** Another door: a lesson is left behind, and nothing but what stands here is painted. */
  entered() {
    this.cards.tell("entered", doorNow());
    this.main.dataset.door = doorNow();
    this.request();
  }

  /** The reader chose a round, a node or a stage: the address keeps it. */
  moved() {
    this.request();
    const { place, at } = this.cursor;
    if (this.pageStore || this.opening.playing || !place || at.lane !== (draftLane(this.store) || this.store.lanes[0]))
      return;
    clearTimeout(this.placed);
    this.placed = setTimeout(() => setInAddress(place), 300);
  }

  say(text, link, offers, code) {
    this.message.say(text, link, offers, code);
  }

  // Events in.

  feed(text) {
    if (!text || text === this.heard) return;
    this.heard = text;
    let delta;
    try {
      delta = JSON.parse(text);
    } catch {
      this.say("The page received data that is not a run; reload it.");
      return;
    }
    this.receive(delta);
    if (delta.note && (!delta.run || delta.run === this.waiting?.run))
      this.awaiting = this.unheard = this.stopping = false; // refused
    if (delta.note !== undefined) this.say(delta.note); // last: a run that begins takes older messages away
  }

  receive(delta) {
    if (delta.titles) {
      nameDrafters(delta.titles);
      showTaught();
      setTimeout(() => this.refit()); // the controls know them by then
    }
    if (delta.drafters) giveDrafters(delta.drafters);
    if (delta.engine !== undefined) showEngine(delta.engine);
    if (delta.arrived) {
      this.arrived = true; // the controls hold the settings of the address
      settingsArrived();
      this.cards.tell("arrived");
      if (carriesRun()) openCarried(() => this.say("The run in this link cannot be read; ask for it as a file."));
      else findRun();
    }
    const over = this.cards.all.some(({ hears }) => hears && delta[hears]?.state === "done");
    if (over && this.message.text.textContent === this.resumed) this.message.hide();
    const resumed = this.cards.hear(delta);
    if (resumed) this.showResumed(resumed);
    const fed = this.cards.fedBy(delta);
    if (fed) fed.view.arrive(delta[fed.feeds], delta);
    else if (delta.run === undefined) this.request();
    else this.receiveRun(delta);
  }

  /** What was going on before a reload is shown again, in a part of Watch or behind its door. */
  showResumed({ noun, area, title, door }) {
    const part = area === "exact" ? "Is it exact?" : area === "unfold" ? title : "";
    if (part) this.unfold.set(part, true);
    else openDoor(door);
    this.resumed = `Your ${noun} is still running; its results so far are ${part ? `under “${part}”` : "here"}.`;
    this.say(this.resumed);
  }

  receiveRun(delta) {
    const opensPage = delta.source === "recorded" && !this.arrived; // later ones were loaded by the reader
    if (opensPage && (teaching() || namesRun() || carriesRun())) return; // what the link names is run or opened here
    if (this.log.begins(delta.run)) {
      if (this.stopping) pressStop(); // it was pressed after Run, and came to the host before it
      this.unheard = this.stopping = false;
      const paced = Boolean(delta.paced) && !delta.whole;
      this.waiting = { run: delta.run, source: delta.source || "live", paced };
      if (delta.whole && this.pageStore) this.beginHidden();
    }
    const events = this.log.fresh(delta);
    if (events) this.take({ ...delta, ev: events });
    if (delta.whole) this.stepped = delta.state === "stepping";
  }

  /** Run was pressed: until the run has begun, what is shown is another one's. A step of a run goes on with it. */
  pressed(step) {
    this.sought = null;
    if (step && this.state === "stepping") return;
    this.awaiting = this.unheard = true;
    this.stopping = false;
    this.request();
  }

  /** The picture stays where it is. True if the engine is ahead of it and need not be stopped. `withdrawn`: Run was pressed,
   *  but not sent yet. */
  freeze(withdrawn) {
    const { playing } = this.transport;
    this.unheard = this.unheard && !withdrawn;
    this.stopping = this.unheard;
    this.awaiting = false;
    this.transport.freeze();
    return playing && isFinished(this.store);
  }

  take(delta) {
    this.state = delta.state || this.state;
    if (delta.state === "done" && delta.run === this.waiting?.run) this.awaiting = false; // stopped before it began
    this.waits = delta.waits || "";
    const events = delta.ev || [];
    if (events.length && this.waiting && this.waiting.run === delta.run) this.begin();
    if (events.length && delta.run !== this.shownRun) return;
    const store = this.pageStore || this.store;
    const forks = store.over && events.some((event) => event.kind === "run_start");
    if (forks && !this.pageStore) this.transport.toEnd(); // a fork is shown as it comes
    this.runs.hear(events);
    for (const event of events) fold(store, event);
    if (this.sought && !this.pageStore && isFinished(store)) this.seek();
    else if (events.length && PICTURES.includes(store.run)) this.open();
    if (delta.state === "done" && delta.run === this.shownRun) {
      store.over = true;
      this.runs.over(store);
    }
    if (this.pageStore) return; // a lesson is shown; the run waits behind it
    const broken = events.some((event) => event.kind === "run_end" && !ENDS.includes(event.reason));
    if (broken && !this.transport.frozen) this.transport.toEnd();
    if (events.length) this.transport.arrived();
    else this.request();
  }

  /** What the address names in the run that came first, and in the one that a reload finds again. */
  seek() {
    this.transport.toEnd();
    this.cursor.goTo(draftLane(this.store) || this.store.lanes[0], this.sought);
  }

  /** The page's own recorded run, when nothing else was asked for. */
  open() {
    this.opening.offer(hostCan("set") && !this.scenes.at && !this.pageStore && doorNow() === "watch");
  }

  begin() {
    const { source, run, paced } = this.waiting;
    this.waiting = null;
    if (this.pageStore) this.guest.close();
    this.pageStore = null;
    this.shownRun = run;
    this.runs.begin();
    this.awaiting = false;
    this.stepped = !paced;
    this.message.hide();
    this.change(Object.assign(newStore(), { source }), paced);
  }

  /** A lesson is shown: the run waits behind it. */
  beginHidden() {
    this.pageStore = Object.assign(newStore(), { source: this.waiting.source });
    this.runs.begin();
    this.shownRun = this.waiting.run;
    this.waiting = null;
  }

  /** A card's recorded run is shown for a while; the page's own waits. */
  showGuestRun(guest, store) {
    this.guest = guest;
    this.pageStore = this.pageStore || this.store;
    this.change(store, false);
    this.transport.toEnd();
  }

  restorePageRun() {
    const { pageStore } = this;
    this.pageStore = this.guest = null;
    this.change(pageStore, false);
    this.transport.toEnd();
  }

  /** Another run takes the place of what is shown. */
  change(store, paced) {
    this.store = store;
    this.opening.offer(false);
    this.cursor.reset();
    this.transport.begin(store, paced);
    this.lanes = [];
    this.laneBox.replaceChildren();
  }

  // Painting: once a frame at most.

  request() {
    if (this.frameRequested) return;
    this.frameRequested = true;
    const paint = () => {
      if (!this.frameRequested) return;
      this.frameRequested = false;
      try {
        this.paint();
        if (this.arrived || this.store.lanes.length) leaveFront();
      } catch (error) {
        console.error(error);
        this.say("Part of this run cannot be drawn; the rest is shown.");
      }
    };
    requestAnimationFrame(paint);
    if (document.hidden) setTimeout(paint, 200);
  }

  paint() {
    const { store, transport, cursor } = this;
    const any = store.lanes.length > 0;
    const door = doorNow();
    const here = this.scenes.at || door === "watch" || this.guest || servesHere(door, store);
    this.lead.nothing.hidden = any || !here;
    this.shown.hidden = !any || !here;
    document.documentElement.toggleAttribute("data-run", any); // what the page has below a run (page.css)
    this.lead.placeForm(!any);
    this.showParts();
    for (const box of this.boxes) this.paintBox(box, door);
    const state = this.awaiting && !LATER.includes(this.state) ? "starting" : this.state;
    const phone = this.clientWidth <= PHONE && !this.scenes.at;
    this.lead.place(phone, this.main);
    this.placeTrees(phone);
    this.lead.paintStatus(store, state, this);
    if (this.shown.hidden) return;
    cursor.catchUp(store, this.state === "stepping");
    const { now, whole } = transport;
    const soloState = this.soloState();
    this.lead.paintSentence(store, transport, soloState);
    this.paintLanes(now);
    const selection = cursor.at;
    const known = cursor.known();
    this.strip.paint(store, cursor.shown, selection, known, cursor.partial, this.colours);
    this.strip.offer(this.runs.kept, (run) => this.runs.back(run));
    const served = ofServers(store) && !isInside(selection?.lane);
    this.pair.hidden = served;
    if (!served) this.paintRound(selection, known);
    this.measured.paint(store);
    this.reconstructed.paint(selection);
    if (this.scenes.at && selection) this.main.dataset.shape = isChain(selection.lane) ? "chain" : "tree";
    const seen = { store, now: cursor.shown, whole, soloState, selection, known, busy: this.busy };
    this.unfold.paint(seen);
    for (const { view } of this.cards.in("run")) view.paint(seen);
    if (this.sceneBox.hidden) return;
    this.why.paint(seen);
    this.noFormula.hidden = !this.why.formula.root.hidden;
  }

  /** On a phone the tree of a run comes before its texts, with which their legend stands: the first screen has it. */
  placeTrees(phone) {
    const first = phone && !this.guest && !ofServers(this.store);
    if (this.round.root.parentNode === (first ? this.shown : this.pair)) return;
    const { legend, basis } = this.lead;
    if (first) {
      this.race.before(...this.trees);
      this.race.prepend(legend);
    } else {
      this.pair.prepend(...this.trees);
      basis.after(legend);
    }
  }

  /** A card that wants the whole of its door has it. */
  paintBox({ door, views, root }, now) {
    root.hidden = door !== now || Boolean(this.guest);
    if (root.hidden) return;
    const whole = views.find((view) => view.whole);
    for (const view of views) {
      view.root.hidden = whole ? view !== whole : view.whole === false;
      if (!view.root.hidden) view.paint?.({ store: this.pageStore || this.store, busy: this.busy });
    }
  }

  paintRound(selection, known) {
    const { store, cursor } = this;
    const narrow = this.clientWidth < NARROW;
    this.opening.paint(selection);
    this.round.paint(selection, known, narrow, cursor, this.colours);
    this.beside.paint(store, selection, known, narrow, cursor.shown, this.round.tall, this.colours);
    this.decision.paint(selection, known);
    this.fork.paint(store, selection, known, this.busy);
    this.scale.paint(store, selection, known);
  }

  paintLanes(now) {
    for (let i = this.lanes.length; i < this.store.lanes.length; i++) {
      const view = new LaneView(this.store.lanes[i], (lane, round) => this.cursor.select(lane, round), this.request);
      this.lanes.push(view);
      this.laneBox.append(view.root);
    }
    const longest = longestGap(this.store, now);
    for (const view of this.lanes) view.paint(this.store, now, this.cursor.at, longest, this.cursor.untold);
  }

  /** Texts that are whole are read side by side. */
  scrolled(pane) {
    if (!this.transport.whole) return;
    for (const view of this.lanes) if (view.pane !== pane) view.pane.scrollTop = pane.scrollTop;
  }

  /** The engine does something for this reader already. */
  get busy() {
    return (this.state || "done") !== "done" || this.cards.running;
  }

  /** Whole solo runs follow a live race, unless it is stepped through or was stopped. */
  soloState() {
    if (this.store.source === "recorded" || this.stepped) return "";
    if (this.store.lanes.some((lane) => lane.end && lane.end.reason === "cancelled")) return "";
    return this.state === "solo" ? "running" : this.state === "done" ? "" : "later";
  }
}
