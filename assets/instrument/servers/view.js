// Servers of other programs: which ones there are, a race of them, a load test of them, audits of one. The race is shown
// as a run.

import { button, h, remark, setText } from "../base/dom.js";
import { counted, shorten } from "../base/format.js";
import { askHost, callServer, hostCan, pressStop, say } from "../base/host.js";
import { AuditCard } from "./audit.js";
import { InsideCard } from "./inside.js";
import { readCurve } from "./curve.js";
import { LoadCard } from "./load.js";

const WHAT =
  "A race sends the prompt and the sampling settings of Watch to each, in turns, and to this page's own engine if you like. A load test sends many such requests at once. An audit asks whether a server's texts still follow its target's distribution. Inside shows the rounds of a vLLM that records them.";
const START = "draftscope servers MODEL"; // what prints how to start them
const ABSENT =
  "This page asks no servers: it was not started on an address of this computer alone. Run Draftscope on your own, or name servers in DRAFTSCOPE_SERVERS.";
const CALLED = "Only addresses of this computer and those that its operator has listed are called.";
const MOST = [1, 2, 4, 8, 16, 32, 64]; // requests at once
const USUAL = 8;
const LOAD = Symbol("load"); // in place of the name of an audited server
const LOCAL_LANES = { plain: "plain decoding", drafter: "the drafter chosen on Watch" }; // lanes that the engine here decodes
const WEIGHTS = { value: "", text: "the target loaded here" };

const museumRow = (open) =>
  h(
    "div.controls",
    h("span.note", "What an audit finds: four bugs of published servers, rebuilt and mended."),
    button("Open the museum", open),
  );

export class ServersView {
  constructor(repaint, toMuseum) {
    this.repaint = repaint;
    this.known = null; // {servers: [{name, url}], canAdd, programs, pointSeconds}, once the host has said
    this.left = new Set(); // names that do not race
    this.here = new Set(); // of LOCAL_LANES: they race
    this.audits = new Map(); // name -> {card, audit, answer}
    this.inside = null; // the card of a server that records itself
    this.loaded = null; // {card, curve, answer}: a load test; the answer is null where a file was opened
    this.list = h("ul.server-list");
    this.none = this.emptyState();
    this.absentWords = remark(ABSENT);
    this.go = button("Race these servers", () => this.race(), { class: "small strong" });
    this.beside = h(
      "div.beside",
      { role: "group", "aria-label": "Lanes of this page's engine" },
      h("span.note", "and with this page's engine:"),
      Object.entries(LOCAL_LANES).map(([lane, words]) => this.hereBox(lane, words)),
    );
    this.stop = button("Stop", pressStop);
    this.test = button("Load test", () => this.load());
    this.most = h(
      "select",
      { "aria-label": "Requests at once, at most", on: { change: () => this.repaint() } },
      MOST.map((n) => h("option", { value: String(n), selected: n === USUAL }, String(n))),
    );
    this.time = h("span.note");
    this.upTo = h("label.stated", "up to ", this.most, " requests at once ");
    this.file = h("input", { type: "file", accept: ".json", hidden: true, on: { change: () => this.open() } });
    this.openFile = button("Open load test", () => this.file.click());
    this.against = h("select", { "aria-label": "Audit against" });
    this.target = h("label.stated", "audits compare with ", this.against);
    this.field = h("input.address", {
      placeholder: "plain=http://127.0.0.1:8100",
      "aria-label": "Name and address of a server",
    });
    this.form = h(
      "form.controls",
      { on: { submit: (event) => this.add(event) } },
      this.field,
      h("button.small", { type: "submit" }, "Add"),
      h("span.note", CALLED),
    );
    this.cards = h("div.audits");
    this.root = h(
      "div.sheet.servers",
      this.absentWords,
      this.none,
      this.list,
      h("div.controls", this.go, this.beside, this.stop),
      h("div.controls", this.target),
      h("div.controls", this.test, this.upTo, this.time, this.openFile, this.file),
      this.form,
      (this.what = remark(WHAT)),
      this.cards,
      (this.museum = museumRow(toMuseum)),
    );
  }

  emptyState() {
    return h(
      "div.no-server",
      h("b", "No server is listed yet."),
      h("p", "Start one that decodes plainly and one that speculates; this prints both commands for your model:"),
      h("div.controls", h("code", START), (this.copy = button("Copy", () => this.copyStart()))),
      h("p", "Then add their addresses here, a name before each, and race, load-test or audit them:"),
    );
  }

  async copyStart() {
    try {
      await navigator.clipboard.writeText(START);
      setText(this.copy, "Copied");
    } catch {
      say("This page cannot use the clipboard; mark the command and copy it.");
    }
  }

  get running() {
    return this.loading || [...this.audits.values()].some(({ answer }) => answer.state !== "done");
  }

  get loading() {
    return Boolean(this.loaded?.answer) && this.loaded.answer.state !== "done";
  }

  /** True for an answer that was going on before a reload. */
  hear(answer) {
    if (answer.state === "done" && answer.note) say(answer.note);
    return !this.requested && !this.running && answer.state !== "done";
  }

  /** A load test goes on: its latest event says all. */
  takeLoad(answer) {
    const resumed = this.hear(answer);
    const curve = answer.ev.at(-1) || this.loaded?.curve;
    if (curve) this.showLoad(curve, answer);
    this.repaint();
    return resumed;
  }

  showLoad(curve, answer) {
    const close = () => {
      this.loaded = null;
      this.repaint();
    };
    this.loaded = { card: this.loaded?.card || new LoadCard(pressStop, close), curve, answer };
  }

  /** An audit goes on: its latest event says all. */
  take(answer) {
    const resumed = this.hear(answer);
    const audit = answer.ev.at(-1);
    const name = audit ? audit.server : this.requested;
    const old = this.audits.get(name);
    if (audit || old) {
      const card = old?.card || new AuditCard(pressStop, () => this.close(name));
      this.audits.set(name, { card, audit: audit || old.audit, answer });
    }
    if (answer.state === "done" && answer.note && !audit) this.audits.delete(name);
    this.repaint();
    return resumed;
  }

  close(name) {
    this.audits.delete(name);
    this.repaint();
  }

  paint({ busy }) {
    const absent = !hostCan("race");
    for (const part of this.root.children) part.hidden = part !== this.museum && absent !== (part === this.absentWords);
    if (absent) return;
    if (!this.known) {
      this.ask({});
      return;
    }
    const { servers, canAdd } = this.known;
    this.form.hidden = !canAdd;
    this.none.hidden = servers.length > 0;
    for (const part of [this.go, this.beside, this.target, this.test, this.upTo, this.time, this.openFile])
      part.hidden = !servers.length;
    this.go.disabled = this.test.disabled = busy || !this.racing().length;
    setText(this.time, this.timeWords());
    this.stop.hidden = !busy;
    this.paintList(busy);
    this.paintAgainst();
    const cards = [...this.audits.values()];
    for (const { card, audit, answer } of cards) card.paint(audit, answer, answer.state !== "done");
    const { loaded } = this;
    if (loaded) loaded.card.paint(loaded.curve, loaded.answer, this.loading);
    if (this.inside) this.inside.paint(busy);
    const inside = this.inside ? [{ card: this.inside }] : [];
    const roots = [...inside, ...(loaded ? [loaded] : []), ...cards].map(({ card }) => card.root);
    if (roots.length !== this.cards.children.length || roots.some((root, i) => this.cards.children[i] !== root))
      this.cards.replaceChildren(...roots);
  }

  timeWords() {
    const points = MOST.filter((n) => n <= Number(this.most.value)).length * this.racing().length;
    return points ? `about ${this.known.pointSeconds * points} s for ${counted(points, "point")}` : "";
  }

  racing() {
    return this.known.servers.map(({ name }) => name).filter((name) => !this.left.has(name));
  }

  paintList(busy) {
    const stamp = JSON.stringify([this.known, busy]);
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.list.replaceChildren(...this.known.servers.map((server) => this.row(server, busy)));
  }

  row({ name, url }, busy) {
    const box = h("input", {
      type: "checkbox",
      checked: !this.left.has(name),
      on: { change: () => this.choose(name, box.checked) },
    });
    return h(
      "li",
      h("label", box, h("b", name), h("code", url)),
      h(
        "span.controls",
        button("Audit", () => this.audit(name), { disabled: busy, "aria-label": `Audit ${name}` }),
        button("Inside", () => this.look(name), { disabled: busy, "aria-label": `Inside ${name}` }),
        this.known.canAdd
          ? button("Remove", () => this.ask({ remove: name }), { disabled: busy, "aria-label": `Remove ${name}` })
          : null,
      ),
    );
  }

  /** A lane of the race that the engine here decodes. */
  hereBox(lane, words) {
    const choose = () => (box.checked ? this.here.add(lane) : this.here.delete(lane));
    const box = h("input", { type: "checkbox", on: { change: choose } });
    return h("label", box, words);
  }

  paintAgainst() {
    const options = [WEIGHTS, ...this.known.servers.map(({ name }) => ({ value: name, text: `the server ${name}` }))];
    const stamp = JSON.stringify(options);
    if (stamp === this.offered) return;
    this.offered = stamp;
    const { value } = this.against;
    this.against.replaceChildren(...options.map((option) => h("option", option)));
    this.against.value = options.some((option) => option.value === value) ? value : "";
  }

  choose(name, racing) {
    if (racing) this.left.delete(name);
    else this.left.add(name);
    this.repaint();
  }

  /** Its lanes are at the top of the page. */
  race() {
    this.root.getRootNode().host.scrollIntoView({ block: "start" });
    askHost("race", { kind: "race", names: this.racing(), here: [...this.here] });
  }

  /** What the recorder inside a server has; a sentence where there is none. */
  async look(name) {
    const reply = await callServer("servers", { inside: name });
    if (!reply) return;
    if (reply.note) say(reply.note);
    const close = () => {
      this.inside = null;
      this.repaint();
    };
    const others = reply.servers.map((server) => server.name).filter((other) => other !== name);
    this.inside = reply.recorded ? new InsideCard(name, reply.recorded, others, () => this.look(name), close) : null;
    this.repaint();
  }

  /** Many requests at once, to each server in turn. */
  load() {
    this.requested = LOAD;
    this.loaded = null;
    say("");
    askHost("loadtest", { kind: "load", names: this.racing(), most: Number(this.most.value) });
  }

  /** A load test that was saved, here or by the command line. */
  async open() {
    const [file] = this.file.files;
    if (!file) return;
    const curve = readCurve(await file.text());
    this.file.value = "";
    if (curve) this.showLoad(curve, null);
    else
      say(
        `“${shorten(file.name, 60)}” is no load test; choose a file that Save or “draftscope race --concurrency” wrote.`,
      );
    this.repaint();
  }

  audit(name) {
    this.requested = name;
    this.audits.delete(name);
    say("");
    askHost("audit", { kind: "audit", names: [name], against: this.against.value });
  }

  add(event) {
    event.preventDefault();
    if (this.field.value.trim()) this.ask({ add: this.field.value.trim() });
  }

  /** The host's list, after one was added or removed. */
  async ask(wanted) {
    if (this.asking) return;
    this.asking = true;
    const reply = await callServer("servers", wanted);
    this.asking = false;
    if (!reply) return;
    this.known = reply;
    setText(this.what, `Servers that run elsewhere: ${reply.programs}. ${WHAT}`);
    if (reply.note) say(reply.note);
    else if (wanted.add) this.field.value = "";
    this.repaint();
  }
}
