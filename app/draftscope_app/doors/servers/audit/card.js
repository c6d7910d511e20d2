// Audits of servers, each against another server or the target that is loaded here.

import { askHost, pressStop, say } from "../../../base/host.js";
import { choice, smallButton } from "../../../base/templates.js";
import { auditCard } from "../../../servers/audit-card.js";
import { html, repeat } from "../../../vendor/lit-html.js";

class Audits {
  constructor({ request }) {
    this.repaint = request;
    this.all = new Map(); // name -> {audit, answer}
    this.against = ""; // the name of a server, or the target loaded here
    this.asks = "audit";
    this.about = "An audit asks whether a server's texts still follow its target's distribution.";
  }

  get answered() {
    return this.all.size > 0;
  }

  get running() {
    return [...this.all.values()].some(({ answer }) => answer.state !== "done");
  }

  /** One goes on: its latest event says all. True for one that was going on before a reload. */
  take(answer) {
    if (answer.state === "done" && answer.note) say(answer.note);
    const resumed = !this.requested && !this.running && answer.state !== "done";
    const audit = answer.ev.at(-1);
    const name = audit ? audit.server : this.requested;
    const old = this.all.get(name);
    if (audit || old) this.all.set(name, { audit: audit || old.audit, answer });
    if (answer.state === "done" && answer.note && !audit) this.all.delete(name);
    this.repaint();
    return resumed;
  }

  button(_, name, busy) {
    return smallButton("Audit", () => this.ask(name), busy, `Audit ${name}`);
  }

  controls({ names }) {
    const against = [["", "the target loaded here"], ...names.map((name) => [name, `the server ${name}`])];
    if (!against.some(([name]) => name === this.against)) this.against = "";
    return html`<div class="controls">
      <label class="stated">
        audits compare with ${choice("Audit against", against, this.against, (name) => (this.against = name))}
      </label>
    </div>`;
  }

  answers() {
    return repeat(
      this.all,
      ([name]) => name,
      ([name, { audit, answer }]) => {
        const running = answer.state !== "done";
        const end = running ? smallButton("Stop", pressStop) : smallButton("Close", () => this.close(name));
        return auditCard(audit, answer, running, end);
      },
    );
  }

  ask(name) {
    this.requested = name;
    this.all.delete(name);
    say("");
    askHost("audit", { kind: "audit", names: [name], against: this.against });
  }

  close(name) {
    this.all.delete(name);
    this.repaint();
  }
}

export const card = {
  area: "servers",
  door: "servers",
  noun: "audit",
  hears: "audit",
  make: (page) => new Audits(page),
};
