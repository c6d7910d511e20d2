// What was recorded of servers of other programs: a race, which is shown as a run, a load test and audits, which their
// own cards draw.

import { h } from "../../../base/dom.js";
import { receive } from "../../../base/host.js";
import { smallButton } from "../../../base/templates.js";
import { doorNow } from "../../../host/doors.js";
import { html, nothing, render } from "../../../vendor/lit-html.js";
import { readFile } from "../runs/files.js";
import sheet from "./card.css" with { type: "css" };

const DRAWN = ["load", "audit"]; // cards that draw an answer

class RecordedServers {
  constructor(page) {
    this.page = page;
    this.root = h("section.card.recorded-servers", { "aria-label": "Recorded servers" });
  }

  paint() {
    if (!this.recorded && !this.reading && doorNow() === "servers") this.read();
    if (this.recorded) this.draw();
  }

  async read() {
    this.reading = true;
    const text = await readFile("servers");
    if (!text) return;
    this.recorded = JSON.parse(text);
    this.race();
    this.page.request();
  }

  race() {
    const { race } = this.recorded;
    if (race) receive(`{"seq": 0, "run": "r1", "source": "recorded", "state": "done", "ev": [${race}]}`);
  }

  /** The card of a task draws it, as if it had just ended. */
  show(card, event) {
    this.page.cards.view(card)?.take({ state: "done", ev: [event], about: {} });
  }

  draw() {
    const { audits, load } = this.recorded;
    const audit = (one) => smallButton(`Audit of ${one.server}`, () => this.show("audit", one));
    const drawn = DRAWN.map((name) => this.page.cards.view(name)).filter(Boolean);
    const view = html`
      <h2>Recorded</h2>
      <p class="sum">
        A race of servers is below. Here is what a load test and audits of servers showed; press one to open it.
      </p>
      <div class="controls">
        ${load ? smallButton("Load test", () => this.show("load", load)) : nothing} ${audits.map(audit)}
      </div>
      <div class="audits">${drawn.map((card) => card.answers(null, false))}</div>
    `;
    render(view, this.root);
  }
}

export const card = { area: "door", door: "servers", sheet, make: (page) => new RecordedServers(page) };
