// A race of servers, and of this page's own engine if wanted. It is shown as a run, at the top of the page.

import { askHost, pressStop } from "../../../base/host.js";
import { checkbox, smallButton } from "../../../base/templates.js";
import { html, nothing } from "../../../vendor/lit-html.js";

const LOCAL_LANES = { plain: "plain decoding", drafter: "the drafter chosen on Watch" }; // that the engine here decodes

class RaceControls {
  constructor(page) {
    this.page = page;
    this.here = new Set(); // of LOCAL_LANES: they race
    this.asks = "race";
    this.about =
      "A race sends the prompt and the sampling settings of Watch to each, in turns, and to this page's own engine if you like.";
  }

  controls(list, busy) {
    const beside = ([lane, words]) =>
      checkbox(words, this.here.has(lane), (on) => (on ? this.here.add(lane) : this.here.delete(lane)));
    const idle = busy || !list.chosen.length;
    return html`<div class="controls">
      <button class="small strong" type="button" ?disabled=${idle} @click=${() => this.race(list.chosen)}>
        Race these servers
      </button>
      <div class="beside" role="group" aria-label="Lanes of this page's engine">
        <span class="note">and with this page's engine:</span>
        ${Object.entries(LOCAL_LANES).map(beside)}
      </div>
      ${busy ? smallButton("Stop", pressStop) : nothing}
    </div>`;
  }

  race(names) {
    this.page.scrollIntoView({ block: "start" });
    askHost("race", { kind: "race", names, here: [...this.here] });
  }
}

export const card = { area: "servers", door: "servers", make: (page) => new RaceControls(page) };
