// The museum: published bugs, rebuilt small. Each with what its server wrote, and how its audit and that of its mend
// ended (tests/programs/record_museum.py).

import { fromAddress } from "../../../base/address.js";
import { h } from "../../../base/dom.js";
import { formatProb, visible } from "../../../base/format.js";
import { openDoor } from "../../../host/doors.js";
import { callServer } from "../../../base/host.js";
import { smallButton } from "../../../base/templates.js";
import { shareBars } from "../../../draw/shares.js";
import { scrollable, table } from "../../../draw/tables.js";
import { betRows, resultOf, resultWords } from "../../../servers/audit-card.js";
import { html, nothing, render } from "../../../vendor/lit-html.js";

const WHAT =
  "Each of these servers ran, and looked right: the text is fluent, greedy texts are identical, the speed is as it should be. Here each is a small server of our own with the wrong mechanism. The audit of “Servers” convicts it, and finds no difference once it is mended. “draftscope museum” does all this again.";
const ENTRANCE =
  "Four servers that wrote fluent text of a wrong distribution, or lied about it: the mechanism, a picture, what convicts each, and the mend.";
const OFF = 0.01; // a reported probability that far off is marked
const SIDES = { wrong: "As it was", mended: "Mended" };

class MuseumView {
  constructor() {
    this.entrance = h("section", { "aria-label": "Museum" });
    const entrance = html`
      <h3>A museum of real bugs</h3>
      <p class="note">${ENTRANCE}</p>
      <div class="controls">${smallButton("Open the museum", () => this.open())}</div>
    `;
    render(entrance, this.entrance);
    this.root = h("div.learn.museum", { hidden: true });
    this.draw(null);
  }

  draw(record) {
    const view = html`
      <header class="card-head wrap">
        <h2 tabindex="-1">Real bugs of speculative decoding</h2>
        ${smallButton("Back to Learn", () => this.close())}
      </header>
      <p class="sum">${WHAT}</p>
      <div class="halls">
        ${record ? [...record.exhibits.map(exhibitOf), othersOf(record.not_reproduced)] : nothing}
      </div>
    `;
    render(view, this.root);
  }

  /** Whether the address leads here. */
  get wanted() {
    return fromAddress("museum") === "1";
  }

  /** Its own place is the whole of its door. */
  get whole() {
    return this.wanted;
  }

  /** A line for the list of servers. */
  invitation() {
    return html`<div class="controls">
      <span class="note">What an audit finds: four bugs of published servers, rebuilt and mended.</span>
      ${smallButton("Open the museum", () => this.open())}
    </div>`;
  }

  arrived() {
    this.settled = true;
    this.show();
  }

  entered() {
    if (this.settled) this.show();
  }

  open() {
    openDoor("learn", { museum: 1 });
    this.root.querySelector("h2").focus({ preventScroll: true });
  }

  close() {
    openDoor("learn", { museum: null });
    this.show();
    this.entrance.querySelector("button").focus();
  }

  /** As the address says. The exhibits are fetched once. */
  async show() {
    this.root.hidden = !this.wanted;
    if (!this.wanted || this.requested) return;
    this.requested = true;
    const record = await callServer("museum", {});
    if (record) this.draw(record);
    else this.requested = false;
  }
}

function exhibitOf(exhibit) {
  const { number, link, program, title, story, rebuilt, picture } = exhibit;
  return html`<section class="card exhibit" aria-label=${number}>
    <h3>${title}</h3>
    <p class="note">
      <a href=${link} target="_blank" rel="noopener">${number}</a>${` · ${program} · here: ${rebuilt}`}
    </p>
    <p>${story}</p>
    <p class="sum">${captionOf(picture)}</p>
    <div class="twofold">
      ${Object.entries(SIDES).map(([side, words]) => sideOf(words, exhibit[side], picture, side))}
    </div>
  </section>`;
}

const captionOf = ({ kind, prompt, draws }) =>
  kind === "written"
    ? `After “${prompt}”, where one token is drafted: the target's probability → its share of ${draws.toLocaleString("en")} draws`
    : `A text after “${prompt}”, token by token: the target's probability → the one that is reported. The last token had no draft.`;

/** The picture and the audit of one side. */
function sideOf(words, audit, picture, side) {
  const result = resultOf(audit, false);
  return html`<div class="audit" data-result=${result}>
    <h4>${words}</h4>
    ${shareBars(`${words}: the target's and this server's`, rowsOf(picture, side), "the target's")}
    ${picture.kind === "written" ? html`<p class="note">${distanceWords(picture, side)}</p>` : nothing}
    <p class="verdict">${resultWords(audit, result)}</p>
    <p class="verdict-sentence">${audit.verdict}</p>
    <p class="note">Evidence in nats; a difference is clear from ${audit.needed.toFixed(1)} on.</p>
    <div class="bets">${betRows(audit)}</div>
  </div>`;
}

const rowsOf = ({ kind, rows, draws }, side) =>
  rows.map((row) => {
    const { raw, target } = row;
    const got = row[side];
    const allowed = kind === "reported" ? OFF : 4 * Math.sqrt(Math.max(target * (1 - target), 1e-9) / draws);
    return { name: raw ? visible(raw) : "all others", wanted: target, got, far: Math.abs(got - target) > allowed };
  });

const distanceWords = ({ variation, chance }, side) =>
  `Total variation of all tokens ${formatProb(variation[side])}; draws from the target itself have about ${formatProb(chance)}.`;

const othersOf = (others) =>
  html`<section aria-label="Not reproduced">
    <h3>Not reproduced here</h3>
    ${scrollable("Not reproduced", table(["number or program", "what it is"], others))}
  </section>`;

export const card = { area: "door", door: "learn", place: "museum", make: () => new MuseumView() };
