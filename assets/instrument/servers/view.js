// Servers of other programs: which ones there are, a race of them, a load test of them, audits of one. The race is shown
// as a run.

import { h } from "../base/dom.js";
import { counted, shorten } from "../base/format.js";
import { askHost, callServer, hostCan, pressStop, say } from "../base/host.js";
import { checkbox, choice, smallButton } from "../base/templates.js";
import { html, nothing, render, repeat } from "../vendor/lit-html.js";
import { auditCard } from "./audit.js";
import { insideCard } from "./inside.js";
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
export class ServersView {
  constructor(repaint, toMuseum) {
    this.repaint = repaint;
    this.toMuseum = toMuseum;
    this.known = null; // {servers: [{name, url}], canAdd, programs, pointSeconds}, once the host has said
    this.left = new Set(); // names that do not race
    this.here = new Set(); // of LOCAL_LANES: they race
    this.audits = new Map(); // name -> {audit, answer}
    this.inside = null; // {name, recorded, others}: a server that records itself
    this.loaded = null; // {curve, answer}: a load test; the answer is null where a file was opened
    this.loadCard = new LoadCard(pressStop, () => this.set({ loaded: null }), repaint);
    this.most = USUAL;
    this.against = ""; // the name of a server, or the target loaded here
    this.root = h("div.sheet.servers");
  }

  async copyStart() {
    try {
      await navigator.clipboard.writeText(START);
      this.set({ copied: true });
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
    if (curve) this.loaded = { curve, answer };
    this.repaint();
    return resumed;
  }

  /** An audit goes on: its latest event says all. */
  take(answer) {
    const resumed = this.hear(answer);
    const audit = answer.ev.at(-1);
    const name = audit ? audit.server : this.requested;
    const old = this.audits.get(name);
    if (audit || old) this.audits.set(name, { audit: audit || old.audit, answer });
    if (answer.state === "done" && answer.note && !audit) this.audits.delete(name);
    this.repaint();
    return resumed;
  }

  close(name) {
    this.audits.delete(name);
    this.repaint();
  }

  set(changes) {
    Object.assign(this, changes);
    this.repaint();
  }

  paint({ busy }) {
    const absent = !hostCan("race");
    if (!absent && !this.known) this.ask({});
    const view = html`
      ${absent ? html`<p class="sum">${ABSENT}</p>` : this.known ? this.template(busy) : nothing}
      <div class="controls">
        <span class="note">What an audit finds: four bugs of published servers, rebuilt and mended.</span>
        ${smallButton("Open the museum", this.toMuseum)}
      </div>
    `;
    render(view, this.root);
  }

  template(busy) {
    const { servers, canAdd, programs } = this.known;
    const row = (server) => this.row(server, busy);
    const stop = html`<div class="controls">${smallButton("Stop", pressStop)}</div>`;
    return html`
      ${servers.length ? nothing : this.emptyState()}
      <ul class="server-list">
        ${repeat(servers, ({ name }) => name, row)}
      </ul>
      ${servers.length ? this.controls(busy) : busy ? stop : nothing} ${canAdd ? this.form() : nothing}
      <input type="file" accept=".json" hidden @change=${({ target }) => this.open(target)} />
      <p class="sum">Servers that run elsewhere: ${programs}. ${WHAT}</p>
      <div class="audits">${this.cards(busy)}</div>
    `;
  }

  emptyState() {
    return html`<div class="no-server">
      <b>No server is listed yet.</b>
      <p>Start one that decodes plainly and one that speculates; this prints both commands for your model:</p>
      <div class="controls">
        <code>${START}</code>${smallButton(this.copied ? "Copied" : "Copy", () => this.copyStart())}
      </div>
      <p>Then add their addresses here, a name before each, and race, load-test or audit them:</p>
    </div>`;
  }

  controls(busy) {
    const { servers } = this.known;
    const idle = busy || !this.racing().length;
    const beside = ([lane, words]) =>
      checkbox(words, this.here.has(lane), (on) => (on ? this.here.add(lane) : this.here.delete(lane)));
    const against = [["", "the target loaded here"], ...servers.map(({ name }) => [name, `the server ${name}`])];
    if (!against.some(([name]) => name === this.against)) this.against = "";
    const points = MOST.map((n) => [n, n]);
    return html`
      <div class="controls">
        <button class="small strong" type="button" ?disabled=${idle} @click=${() => this.race()}>
          Race these servers
        </button>
        <div class="beside" role="group" aria-label="Lanes of this page's engine">
          <span class="note">and with this page's engine:</span>
          ${Object.entries(LOCAL_LANES).map(beside)}
        </div>
        ${busy ? smallButton("Stop", pressStop) : nothing}
      </div>
      <div class="controls">
        <label class="stated">
          audits compare with ${choice("Audit against", against, this.against, (name) => (this.against = name))}
        </label>
      </div>
      <div class="controls">
        ${smallButton("Load test", () => this.load(), idle)}
        <label class="stated">
          up to ${choice("Requests at once, at most", points, this.most, (most) => this.set({ most: Number(most) }))}
          requests at once
        </label>
        <span class="note">${this.timeWords()}</span>
        ${smallButton("Open load test", () => this.root.querySelector("[type=file]").click())}
      </div>
    `;
  }

  form() {
    return html`<form class="controls" @submit=${(event) => this.add(event)}>
      <input class="address" placeholder="plain=http://127.0.0.1:8100" aria-label="Name and address of a server" />
      <button class="small" type="submit">Add</button>
      <span class="note">${CALLED}</span>
    </form>`;
  }

  cards(busy) {
    const { inside, loaded } = this;
    const audit = ([name, { audit: latest, answer }]) => {
      const running = answer.state !== "done";
      return auditCard(
        latest,
        answer,
        running,
        running ? smallButton("Stop", pressStop) : smallButton("Close", () => this.close(name)),
      );
    };
    return html`
      ${
        inside
          ? insideCard(
              inside,
              busy,
              () => this.look(inside.name),
              () => this.set({ inside: null }),
            )
          : nothing
      }
      ${loaded ? this.loadCard.template(loaded.curve, loaded.answer, this.loading) : nothing}
      ${repeat(this.audits, ([name]) => name, audit)}
    `;
  }

  timeWords() {
    const points = MOST.filter((n) => n <= this.most).length * this.racing().length;
    return points ? `about ${this.known.pointSeconds * points} s for ${counted(points, "point")}` : "";
  }

  racing() {
    return this.known.servers.map(({ name }) => name).filter((name) => !this.left.has(name));
  }

  row({ name, url }, busy) {
    const words = html`<b>${name}</b><code>${url}</code>`;
    return html`<li>
      ${checkbox(words, !this.left.has(name), (racing) => this.choose(name, racing))}
      <span class="controls">
        ${smallButton("Audit", () => this.audit(name), busy, `Audit ${name}`)}
        ${smallButton("Inside", () => this.look(name), busy, `Inside ${name}`)}
        ${this.known.canAdd ? smallButton("Remove", () => this.ask({ remove: name }), busy, `Remove ${name}`) : nothing}
      </span>
    </li>`;
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
    const others = reply.servers.map((server) => server.name).filter((other) => other !== name);
    this.set({ inside: reply.recorded ? { name, recorded: reply.recorded, others } : null });
  }

  /** Many requests at once, to each server in turn. */
  load() {
    this.requested = LOAD;
    this.loaded = null;
    say("");
    askHost("loadtest", { kind: "load", names: this.racing(), most: this.most });
  }

  /** A load test that was saved, here or by the command line. */
  async open(input) {
    const [file] = input.files;
    if (!file) return;
    const curve = readCurve(await file.text());
    input.value = "";
    if (curve) this.loaded = { curve, answer: null };
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
    askHost("audit", { kind: "audit", names: [name], against: this.against });
  }

  add(event) {
    event.preventDefault();
    const add = event.target.querySelector("input").value.trim();
    if (add) this.ask({ add });
  }

  /** The host's list, after one was added or removed. */
  async ask(wanted) {
    if (this.asking) return;
    this.asking = true;
    const reply = await callServer("servers", wanted);
    this.asking = false;
    if (!reply) return;
    this.known = reply;
    if (reply.note) say(reply.note);
    else if (wanted.add) this.root.querySelector(".address").value = "";
    this.repaint();
  }
}
