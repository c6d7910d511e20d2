// What the page says first: whether it is live, what ran, what it is doing, one sentence, and what that rests on.

import { h } from "../base/dom.js";
import { aimOf, doorNow } from "./doors.js";
import { settingsChanged } from "./page.js";
import { given } from "../base/given.js";
import { draftLane, isFinished, speculates } from "../base/store.js";
import { explainedWords } from "../base/symbols.js";
import { textLegend } from "../run/lanes.js";
import { demoWords, provenance } from "../run/provenance.js";
import { basisWords, sentence } from "../run/sentence.js";
import { html, nothing, render } from "../vendor/lit-html.js";
import { PICTURES } from "./opening.js";
import { teaching } from "./teach.js";

/** A teacher's link leaves nothing but Run. */
function nothingYet() {
  if (given.served) return "The recorded run is being read.";
  return `Nothing has run yet. Press Run.${teaching() ? "" : " Share, Load run opens a saved one."}`;
}

const CHOSEN = "The prompt of this run was chosen because drafting gains on it";
const DOING = {
  starting: "starting",
  running: "decoding",
  stepping: "waiting for the next step",
  solo: "timing whole solo runs",
};

export class Lead {
  /** `below` runs, below the headline; `tools` are at the end of the first line. */
  constructor(below, ...tools) {
    this.what = h("span.what");
    this.empty = h("p.empty");
    this.nothing = h("div.nothing", this.empty);
    this.below = below;
    this.aim = h("p.aim");
    this.sentence = h("h2", { "aria-live": "off" });
    this.facts = h("span.facts");
    this.basis = h("p.note.basis");
    this.legend = h("p.legend.text-legend");
    this.foot = h("div.lead-foot", this.facts, this.basis, this.legend, below);
    this.root = h("header.lead", this.sentence, this.foot);
    this.tools = h("div.tools-line", tools);
    this.top = h("div.meta", this.aim, this.tools);
  }

  /** The tools in the first line, or on a phone at the end of `main`, which says the headline first. */
  place(phone, main) {
    const home = phone ? main : this.top;
    if (this.tools.parentNode !== home) home.append(this.tools);
  }

  /** The form that runs in scenes stands below the headline, or where nothing has run below that sentence. */
  placeForm(empty) {
    const home = empty ? this.nothing : this.foot;
    if (this.below.parentNode !== home) home.append(this.below);
  }

  /** In words, where the pictures' numbers come from. */
  get origin() {
    return `${this.badge} · ${this.what.title} · Draftscope`;
  }

  /** `state` is the engine's, `waits` why the run has not begun, in words. While a run is `awaiting` its beginning, the
   *  old is greyed. */
  paintStatus(store, state, { awaiting, waits }) {
    const lead = draftLane(store) || store.lanes[0];
    const start = lead?.start;
    const recorded = store.source === "recorded";
    const doing = waits || (recorded && state === "running" ? "" : (DOING[state] ?? ""));
    const changed = awaiting ? [] : settingsChanged(start, !draftLane(store) && !isFinished(store));
    this.badge = badgeWords(recorded, state);
    this.what.title = start ? provenance(start) : "";
    this.root.classList.toggle("stale", Boolean(awaiting));
    render(explainedWords(aimOf(doorNow())), this.aim);
    render(explainedWords(this.what.title), this.what);
    render(doing ? `${doing}${waits ? "" : " …"}` : nothingYet(), this.empty);
    const facts = html`
      <span
        class="badge ${recorded ? "recorded" : ""}"
        title=${PICTURES.includes(store.run) ? CHOSEN : nothing}
        ?hidden=${!lead}
        >${this.badge}</span
      >
      <span class="demo">${start ? demoWords(start) : ""}</span>
      <span class="doing">${doing && `${doing}${awaiting && !waits ? " …" : ""}`}</span
      ><span class="badge changed" role="status" ?hidden=${!changed.length}
        >${changed.length ? `changed: ${changed.join(", ")}; press Run` : ""}</span
      >
    `;
    render(facts, this.facts);
    render(lead && speculates(lead) ? textLegend() : nothing, this.legend);
  }

  paintSentence(store, { now, whole, frozen }, soloState) {
    render(sentence(store, now, whole) + (frozen && !whole ? " Stopped here." : ""), this.sentence);
    this.basis.title = basisWords(store, now, whole, soloState);
    render(this.basis.title, this.basis);
  }
}

/** How slow it is shown is said once: by the clock. */
function badgeWords(recorded, state) {
  if (recorded) return "recorded";
  return state === "stepping" ? "live · stepping" : "live";
}
