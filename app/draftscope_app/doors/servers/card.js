// Servers of other programs: which ones there are. What can be asked of them are the cards of the tasks, each with a
// button beside a server or a row of controls, and with answers below.

import { h } from "../../base/dom.js";
import { given } from "../../base/given.js";
import { callServer, hostCan, pressStop, say } from "../../base/host.js";
import { oneByOne } from "../../base/order.js";
import { checkbox, smallButton } from "../../base/templates.js";
import { html, nothing, render, repeat } from "../../vendor/lit-html.js";
import sheet from "./card.css" with { type: "css" };

const DOTS = { true: "answers", false: "silent" }; // how an address is marked; anything else: not known yet
const ABSENT =
  "This page asks no servers: it was not started on an address of this computer alone. Run Draftscope on your own, or name servers in DRAFTSCOPE_SERVERS.";
const RECORDED = "This page is made of files and asks no servers; what is below was recorded.";
const CALLED = "Only addresses of this computer and those that its operator has listed are called.";

class ServersView {
  constructor(page) {
    this.page = page;
    this.repaint = page.request;
    this.known = null; // {servers: [{name, url}], canAdd, programs}, once the host has said
    this.left = new Set(); // names that do not take part
    this.seen = new Map(); // name -> {answers, ms, words}: what answers at its address; {} while it is asked
    this.inOrder = oneByOne();
    this.sheet = h("div.sheet.servers");
    this.root = h("div.card", this.sheet);
  }

  /** The cards of what servers can be asked for. */
  get tasks() {
    return this.page.cards.in("servers").map(({ view }) => view);
  }

  /** Their templates of one kind, for the `list` of servers. */
  templates(kind, ...values) {
    return this.tasks.filter((task) => task[kind]).map((task) => task[kind](this, ...values));
  }

  paint({ busy }) {
    const absent = !this.tasks.some(({ asks }) => hostCan(asks));
    if (!absent && !this.known && !this.asking) this.ask({});
    const view = html`
      ${absent ? html`<p class="sum">${given.served ? RECORDED : ABSENT}</p>` : this.known ? this.template(busy) : nothing}
      ${this.page.cards.tell("invitation")}
    `;
    render(view, this.sheet);
  }

  template(busy) {
    const { servers, canAdd, programs } = this.known;
    const row = (server) => this.row(server, busy);
    const stop = html`<div class="controls">${smallButton("Stop", pressStop)}</div>`;
    const about = this.tasks.map((task) => task.about).filter(Boolean);
    return html`<div class="beside-examples">
      <div class="asking">
        ${this.part("Start two, or use yours", this.templates("start"))}
        ${this.part(
          "Their addresses",
          canAdd ? this.form() : nothing,
          html`<ul class="server-list">
            ${repeat(servers, ({ name }) => name, row)}
          </ul>`,
        )}
        ${servers.length ? this.part("Ask them", this.templates("controls", busy)) : busy ? stop : nothing}
        <p class="sum">Servers that run elsewhere: ${programs}. ${about.join(" ")}</p>
      </div>
      <div class="audits">
        ${this.templates("answers", busy)}
        ${this.tasks.some(({ answered }) => answered) ? nothing : this.templates("example")}
      </div>
    </div>`;
  }

  part(title, ...what) {
    return html`<section class="step">
      <h2>${title}</h2>
      ${what}
    </section>`;
  }

  form() {
    return html`<form class="controls" @submit=${(event) => this.add(event)}>
        <input class="address" placeholder="plain=http://127.0.0.1:8100" aria-label="Name and address of a server" />
        <button class="small strong" type="submit">Add</button>
      </form>
      <p class="note">${CALLED}</p>`;
  }

  /** The names of those that take part. */
  get chosen() {
    return this.names.filter((name) => !this.left.has(name));
  }

  get names() {
    return this.known.servers.map(({ name }) => name);
  }

  row({ name, url }, busy) {
    const words = html`<b>${name}</b><code>${url}</code>`;
    return html`<li>
      ${checkbox(words, !this.left.has(name), (on) => this.choose(name, on))} ${this.answering(name)}
      <span class="controls">
        ${this.templates("button", name, busy)}
        ${smallButton("Look again", () => this.look(name), false, `Look again at ${name}`)}
        ${this.known.canAdd ? smallButton("Remove", () => this.ask({ remove: name }), busy, `Remove ${name}`) : nothing}
      </span>
    </li>`;
  }

  /** A dot and a sentence: what answers there. */
  answering(name) {
    const seen = this.seen.get(name);
    const ms = Number.isFinite(seen?.ms) ? html`<span class="note">${seen.ms} ms</span>` : nothing;
    return html`<span class="answering" role="status">
      <i class="dot" data-answers=${DOTS[seen?.answers] ?? "unknown"} aria-hidden="true"></i>
      <span>${seen?.words ?? "looking …"}</span>${ms}
    </span>`;
  }

  /** What answers at the address of a server now; what an older look has seen is out of date. */
  async look(name) {
    const waiting = {};
    this.seen.set(name, waiting);
    this.repaint();
    const seen = await callServer("looks", name);
    if (seen && this.seen.get(name) === waiting) this.seen.set(name, seen);
    this.repaint();
  }

  choose(name, on) {
    if (on) this.left.delete(name);
    else this.left.add(name);
    this.repaint();
  }

  add(event) {
    event.preventDefault();
    const add = event.target.querySelector("input").value.trim();
    if (add) this.ask({ add });
  }

  /** The host's list, after one was added or removed: one after the other. */
  async ask(wanted) {
    this.asking = true;
    const reply = await this.inOrder(() => callServer("servers", wanted));
    this.asking = false;
    if (!reply) return;
    this.known = reply;
    if (wanted.remove) this.seen.delete(wanted.remove);
    for (const { name } of reply.servers) if (!this.seen.has(name)) this.look(name);
    if (reply.note) say(reply.note);
    else if (wanted.add) this.sheet.querySelector(".address").value = "";
    this.repaint();
  }
}

export const card = { area: "door", door: "servers", sheet, make: (page) => new ServersView(page) };
