// The two commands that start servers for the model that is loaded here.

import { callServer, say } from "../../../base/host.js";
import { newestOf } from "../../../base/order.js";
import { choice, smallButton } from "../../../base/templates.js";
import { html, nothing } from "../../../vendor/lit-html.js";
import sheet from "./card.css" with { type: "css" };

const AGAIN_MS = 2000; // while the models are loaded

class Starts {
  constructor({ request }) {
    this.repaint = request;
    this.newest = newestOf(); // of the programs that were chosen
    this.known = null; // {program, programs, setup, commands, more}, once the host has said
  }

  async ask(program = "") {
    this.requested = true;
    const reply = await this.newest(callServer("starts", program));
    if (!reply) return;
    this.known = reply;
    if (!reply.commands) setTimeout(() => this.ask(program), AGAIN_MS);
    this.repaint();
  }

  async copy(command) {
    try {
      await navigator.clipboard.writeText(command);
      this.copied = command;
      this.repaint();
    } catch {
      say("This page cannot use the clipboard; mark the command and copy it.");
    }
  }

  start() {
    if (!this.requested) this.ask();
    const { known } = this;
    if (!known?.commands) return html`<p class="note">${known?.note ?? nothing}</p>`;
    const programs = known.programs.map((name) => [name, name]);
    const row = (words, command) =>
      html`<div class="command">
        <code tabindex="0" role="region" aria-label=${words}>${command}</code>
        ${smallButton(this.copied === command ? "Copied" : "Copy", () => this.copy(command), false, `Copy: ${words}`)}
      </div>`;
    return html`<div class="starts">
      <p class="stated">
        For the model that is loaded here, with ${choice("Program", programs, known.program, (name) => this.ask(name))};
        the second one drafts by copying.
      </p>
      ${known.setup ? row("What to type once", known.setup) : nothing}
      ${known.commands.map(([name, command]) => row(`The ${name} server`, command))}
      <p class="note">Other drafters and flags: <code>${known.more}</code></p>
    </div>`;
  }
}

export const card = { area: "servers", door: "servers", sheet, make: (page) => new Starts(page) };
