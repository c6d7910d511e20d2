// Servers of other programs: which ones there are. What can be asked of them are the cards of the tasks, each with a
// button beside a server or a row of controls, and with answers below.

import { h } from "../../base/dom.js";
import { given } from "../../base/given.js";
import { callServer, hostCan, pressStop, say } from "../../base/host.js";
import { checkbox, smallButton } from "../../base/templates.js";
import { html, nothing, render, repeat } from "../../vendor/lit-html.js";
import sheet from "./card.css" with { type: "css" };

const START = "draftscope servers MODEL"; // what prints how to start them
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

  async copyStart() {
    try {
      await navigator.clipboard.writeText(START);
      this.set({ copied: true });
    } catch {
      say("This page cannot use the clipboard; mark the command and copy it.");
    }
  }

  set(changes) {
    Object.assign(this, changes);
    this.repaint();
  }

  paint({ busy }) {
    const absent = !this.tasks.some(({ asks }) => hostCan(asks));
    if (!absent && !this.known) this.ask({});
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
    return html`
      ${servers.length ? nothing : this.emptyState()}
      <ul class="server-list">
        ${repeat(servers, ({ name }) => name, row)}
      </ul>
      ${servers.length ? this.templates("controls", busy) : busy ? stop : nothing} ${canAdd ? this.form() : nothing}
      <p class="sum">Servers that run elsewhere: ${programs}. ${about.join(" ")}</p>
      <div class="audits">${this.templates("answers", busy)}</div>
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

  form() {
    return html`<form class="controls" @submit=${(event) => this.add(event)}>
      <input class="address" placeholder="plain=http://127.0.0.1:8100" aria-label="Name and address of a server" />
      <button class="small" type="submit">Add</button>
      <span class="note">${CALLED}</span>
    </form>`;
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
      ${checkbox(words, !this.left.has(name), (on) => this.choose(name, on))}
      <span class="controls">
        ${this.templates("button", name, busy)}
        ${this.known.canAdd ? smallButton("Remove", () => this.ask({ remove: name }), busy, `Remove ${name}`) : nothing}
      </span>
    </li>`;
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

  /** The host's list, after one was added or removed. */
  async ask(wanted) {
    if (this.asking) return;
    this.asking = true;
    const reply = await callServer("servers", wanted);
    this.asking = false;
    if (!reply) return;
    this.known = reply;
    if (reply.note) say(reply.note);
    else if (wanted.add) this.sheet.querySelector(".address").value = "";
    this.repaint();
  }
}

export const card = { area: "door", door: "servers", sheet, make: (page) => new ServersView(page) };
