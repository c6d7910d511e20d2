// <draftscope-instrument>: the one element that hosts it all, in an open shadow root.
//
// `feed(text)` takes a JSON delta: {"seq", "run", "ev": [events], "source", "paced", "state", "place", "note"}. A run
// replaces what is shown only when its first event arrives, so a refused run leaves the page as it was.

(function (D) {
  "use strict";
  const { h } = D;
  const NARROW = 700;
  const FOLLOW_MS = 350; // while playing, the round beneath changes no faster than this

  class Instrument extends HTMLElement {
    connectedCallback() {
      if (this.shadowRoot) return;
      const shadow = this.attachShadow({ mode: "open" });
      shadow.append(h("style", { text: D.css() }));
      this.transport = new D.Transport(() => this.request());
      this.store = D.newStore();
      this.selection = null;
      this.following = true;
      this.lanes = [];
      this.runs = new Map(); // run id -> {next, waiting}
      this.build(shadow);
      this.theme();
      this.watch();
      this.request();
      for (const text of D.early || []) this.feed(text);
      D.early = [];
    }

    build(shadow) {
      const actions = { open: (slot, key) => this.open(slot, key), step: (by) => this.step(by) };
      const select = (lane, round) => this.select(lane, round);
      this.badge = h("span", { class: "badge" });
      this.what = h("span", {});
      this.doing = h("span", {});
      this.sentence = h("h2", { "aria-live": "off" });
      this.figures = h("dl", { class: "figures" });
      this.messageText = h("p", {});
      this.messageField = h("input", { readonly: true, "aria-label": "Link to this page with its settings", hidden: true });
      this.message = h("div", { class: "message", hidden: true }, this.messageText, this.messageField,
        h("button", { class: "small", type: "button", text: "Close", on: { click: () => { this.message.hidden = true; } } }));
      this.status = h("div", { role: "status" }, this.message);
      this.lead = h("header", { class: "lead" }, h("p", { class: "meta" }, this.badge, this.what, this.doing), this.sentence, this.figures);
      this.laneBox = h("div", { class: "lanes" });
      this.strip = new D.StripView(this.transport, select);
      this.tree = new D.TreeView(actions);
      this.contest = new D.ContestView(actions);
      this.scale = new D.ScaleView();
      this.empty = h("p", { class: "empty", text: "Nothing has run yet. Press Run, or load a saved run." });
      this.shown = h("div", { class: "ds", style: { gap: "14px" } }, this.lead, this.laneBox, this.strip.root, h("div", { class: "pair" }, this.tree.root, this.contest.root), this.scale.root);
      this.main = h("section", { class: "ds", "aria-label": "Draftscope instrument", tabindex: "-1", on: { keydown: (event) => this.keys(event) } }, this.status, this.empty, this.shown);
      shadow.append(this.main);
    }

    /** The page's theme (Gradio's `.dark`), the system's own, and the width of the pane. */
    watch() {
      const follow = () => { this.theme(); this.request(); };
      for (const target of [document.documentElement, document.body]) new MutationObserver(follow).observe(target, { attributes: true, attributeFilter: ["class"] });
      new ResizeObserver(() => { this.tree.stamp = ""; this.request(); }).observe(this);
    }

    theme() {
      const dark = Boolean(this.closest(".dark")) || document.body.classList.contains("dark") || document.documentElement.classList.contains("dark");
      this.dataset.theme = dark ? "dark" : "light";
      this.colours = { ...D.theme[this.dataset.theme], sans: D.theme.sans };
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
      if (delta.titles) D.titles = delta.titles;
      if (delta.engine !== undefined) D.showEngine(delta.engine);
      if (delta.over) this.check(delta);
      if (delta.arrived) this.arrived = true; // the address's settings stand in the controls
      if (delta.note !== undefined) this.say(delta.note);
      if (delta.run === undefined) return this.request();
      if (delta.whole) return this.rebuild(delta);
      if (delta.seq === 0) {
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
      if (order.held.size) setTimeout(() => order.held.size && Math.min(...order.held.keys()) > order.next && D.again(), 1000);
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
        if (order ? order.next < delta.sent : this.isNewer(delta.over)) D.again();
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
      for (const event of events) D.fold(this.store, event);
      if (delta.state === "done" && delta.run === this.shownRun) this.store.over = true;
      if (events.some((event) => event.kind === "run_end" && event.reason !== "length" && event.reason !== "eos" && event.reason !== "stop")) this.transport.toEnd();
      if (events.length) this.transport.arrived();
      else this.request();
    }

    begin() {
      this.store = D.newStore();
      this.store.source = this.waiting.source;
      this.shownRun = this.waiting.run;
      this.stepped = !this.waiting.paced;
      this.selection = null;
      this.following = true;
      this.settled = false;
      this.message.hidden = true;
      this.transport.begin(this.store, this.waiting.paced);
      this.waiting = null;
      this.lanes = [];
      this.laneBox.replaceChildren();
    }

    /** One sentence for the reader; with a `link`, the link as selectable text beside it. */
    say(text, link) {
      D.setText(this.messageText, text || "");
      this.message.hidden = !text;
      this.messageField.hidden = !link;
      this.messageField.value = link || "";
      if (link) this.messageField.select();
    }

    // Selection.

    select(lane, round) {
      this.following = false;
      const kept = this.selection && this.selection.lane === lane && this.selection.round === round;
      if (!kept) this.choose(lane, round);
      this.request();
    }

    choose(lane, index) {
      const round = lane.rounds[index];
      if (!round) {
        this.selection = null;
        return;
      }
      const slot = D.tellingSlot(round);
      this.selection = { lane, round: index, slot, key: D.tellingKey(round, slot) };
    }

    open(slot, key) {
      if (!this.selection) return;
      this.following = false;
      const round = this.selection.lane.rounds[this.selection.round];
      this.selection = { ...this.selection, slot, key: key === null ? D.tellingKey(round, slot) : key };
      this.request();
    }

    step(by) {
      const at = this.selection;
      if (!at) return;
      const to = Math.max(0, Math.min(at.round + by, at.lane.rounds.length - 1));
      if (this.transport.playing) this.transport.pause();
      this.select(at.lane, to);
    }

    keys(event) {
      const target = event.composedPath()[0];
      if (event.altKey || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
      const act = {
        ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), ",": () => this.step(-1), ".": () => this.step(1),
        Home: () => this.step(-1e9), End: () => this.step(1e9), p: () => this.transport.toggle(), P: () => this.transport.toggle(), Escape: () => this.transport.toEnd(),
      }[event.key];
      const scrolls = target.classList && (target.classList.contains("pane") || target.classList.contains("contest-body"));
      if (!act || (scrolls && /^(Home|End)$/.test(event.key))) return;
      event.preventDefault();
      act();
    }

    /** Unless the reader chose a round, the newest one of the drafting lane is shown; at the end, a telling one. */
    followRound() {
      const lane = D.draftLane(this.store) || this.store.lanes[0];
      if (!this.following || !lane || !lane.rounds.length) return;
      if (this.transport.whole && (this.state !== "stepping")) {
        if (!this.settled) this.choose(lane, D.tellingRound(lane).index);
        this.settled = true;
        return;
      }
      this.settled = false;
      const time = performance.now();
      const index = D.roundsAt(lane, this.transport.now) - 1;
      if (index < 0) {
        this.selection = null;
        return;
      }
      const soon = this.transport.playing && time - (this.followed || 0) < FOLLOW_MS;
      if (this.selection && (soon || this.selection.round === index)) return;
      this.followed = time;
      this.choose(lane, index);
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
      D.setText(this.sentence, D.sentence(store, now, whole));
      this.paintFigures(D.figures(store, now, whole, this.soloState()));
      this.paintLanes(now);
      this.strip.paint(store, now, this.selection, this.colours);
      this.tree.paint(this.selection, this.clientWidth < NARROW);
      this.contest.paint(this.selection);
      this.scale.paint(store, this.selection);
    }

    /** Whole solo runs follow a live race, unless it is stepped through or was stopped. */
    soloState() {
      if (this.store.source === "recorded" || this.stepped) return "";
      if (this.store.lanes.some((lane) => lane.end && lane.end.reason === "cancelled")) return "";
      return this.state === "solo" ? "running" : this.state === "done" ? "" : "later";
    }

    paintStatus() {
      const { store } = this;
      const lead = D.draftLane(store) || store.lanes[0];
      const recorded = store.source === "recorded";
      const stepping = this.state === "stepping" && !recorded;
      this.badge.hidden = !lead;
      this.badge.className = recorded ? "badge recorded" : "badge";
      D.setText(this.badge, recorded ? "recorded" : stepping ? "live · stepping" : "live");
      D.setText(this.what, lead && lead.start ? D.provenance(lead.start) : "");
      const words = { queued: this.place > 0 ? `· in the queue, ${this.place} before you` : "· in the queue", running: recorded ? "" : "· decoding", stepping: "· waits for the next step", solo: "· timing whole solo runs", waiting: "· waiting for the engine" };
      D.setText(this.doing, words[this.state] || "");
      if (!lead) D.setText(this.empty, this.state in words ? words[this.state].slice(2) + " …" : "Nothing has run yet. Press Run, or load a saved run.");
    }

    paintFigures(list) {
      const stamp = list.map((f) => f.id).join();
      if (stamp !== this.figureStamp) {
        this.figureStamp = stamp;
        this.cells = new Map(list.map((f) => [f.id, { value: h("dd", {}), label: h("dt", { class: "label" }), detail: h("dd", { class: "detail" }) }]));
        this.figures.replaceChildren(...list.map((f) => {
          const cell = this.cells.get(f.id);
          return h("div", { class: "figure", "data-figure": f.id }, cell.label, cell.value, cell.detail);
        }));
      }
      for (const f of list) {
        const cell = this.cells.get(f.id);
        cell.value.className = `value ${f.tone}`;
        D.setText(cell.value, f.value);
        D.setText(cell.label, f.label);
        D.setText(cell.detail, f.detail);
      }
    }

    paintLanes(now) {
      for (let i = this.lanes.length; i < this.store.lanes.length; i++) {
        const view = new D.LaneView(this.store.lanes[i], (lane, round) => this.select(lane, round));
        this.lanes.push(view);
        this.laneBox.append(view.root);
      }
      for (const view of this.lanes) view.paint(now, this.selection);
    }
  }

  /** What ran, in one line: models, device, and the settings that shape the run. */
  D.provenance = function provenance(start) {
    const models = start.models.map((m) => `${m.role}${m.name === m.role ? "" : ` ${m.name}`} (${m.layers} × ${m.hidden}, ${size(m.parameters)})`);
    const s = start.settings || {};
    const law = [`T ${s.temperature ?? 0}`];
    if (s.top_p !== undefined && s.top_p < 1) law.push(`top-p ${s.top_p}`);
    if (s.top_k) law.push(`top-k ${s.top_k}`);
    if (s.min_p) law.push(`min-p ${s.min_p}`);
    const cpu = /^cpu$/i.test(start.device) ? `CPU, ${D.count(start.threads, "thread")}` : start.device;
    return [...models, `${cpu}, ${start.dtype}`, law.join(", "), `seed ${start.seed}`].join(" · ");
  };

  const size = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(1)}B` : n >= 1e6 ? `${(n / 1e6).toFixed(1)}M` : n >= 1e3 ? `${(n / 1e3).toFixed(0)}k` : String(n));

  customElements.define("draftscope-instrument", Instrument);
})(window.Draftscope);
