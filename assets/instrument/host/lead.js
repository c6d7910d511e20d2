// What the page says first: whether it is live, what ran, what it is doing, one sentence, and what that rests on.

import { h, setText } from "../base/dom.js";
import { DOORS, doorNow } from "./doors.js";
import { settingsChanged } from "./page.js";
import { draftLane } from "../base/store.js";
import { queueWords } from "../base/task.js";
import { demoWords, provenance } from "../run/provenance.js";
import { basisWords, sentence } from "../run/sentence.js";
import { teaching } from "./teach.js";

/** A teacher's link leaves nothing but Run. */
const nothingYet = () => `Nothing has run yet. Press Run${teaching() ? "." : ", or load a saved run."}`;

export class Lead {
  /** `below` runs and plays, below the headline; `tools` are at the end of the first line. */
  constructor(below, ...tools) {
    this.badge = h("span.badge");
    this.demo = h("span.demo");
    this.what = h("span.what");
    this.doing = h("span");
    this.changed = h("span.badge.changed", { role: "status", hidden: true });
    this.sentence = h("h2", { "aria-live": "off" });
    this.basis = h("p.note.basis");
    this.empty = h("p.empty", nothingYet());
    this.aim = h("p.aim");
    const facts = h("span.facts", this.badge, " ", this.demo, " ", this.doing, this.changed);
    const foot = h("div.lead-foot", facts, this.basis, below);
    this.root = h("header.lead", this.sentence, foot);
    this.tools = h("div.tools-line", tools);
    this.top = h("div.meta", this.aim, this.tools);
  }

  /** The tools in the first line, or on a phone at the end of `main`, which says the headline first. */
  place(phone, main) {
    const home = phone ? main : this.top;
    if (this.tools.parentNode !== home) home.append(this.tools);
  }

  /** In words, where the pictures' numbers come from. */
  get origin() {
    return `${this.badge.textContent} · ${this.what.textContent} · Draftscope`;
  }

  /** `state` is the engine's, `place` the one in its queue, `measuring` what must be measured before the run begins.
   *  While a run is `awaiting` its beginning, the old is greyed. */
  paintStatus(store, transport, state, { place, awaiting, measuring }) {
    setText(this.aim, DOORS[doorNow()]);
    this.root.classList.toggle("stale", Boolean(awaiting));
    const lead = draftLane(store) || store.lanes[0];
    const recorded = store.source === "recorded";
    const stepping = state === "stepping" && !recorded;
    this.badge.hidden = !lead;
    this.badge.className = recorded ? "badge recorded" : "badge";
    this.badge.title = recorded ? "The run that the page opens with was chosen because it gains" : "";
    const slowed = !recorded && transport.playing && transport.slow > 1 ? `live, slowed ${transport.slow}×` : "live";
    setText(this.badge, recorded ? "recorded" : stepping ? "live · stepping" : slowed);
    setText(this.demo, lead && lead.start ? demoWords(lead.start) : "");
    setText(this.what, lead && lead.start ? provenance(lead.start) : "");
    this.what.title = this.what.textContent;
    const words = {
      starting: "starting",
      running: recorded ? "" : "decoding",
      stepping: "waiting for the next step",
      solo: "timing whole solo runs",
    };
    const doing = queueWords({ state, place, measuring }) || words[state];
    setText(this.doing, doing ? `· ${doing}${awaiting && !measuring ? " …" : ""}` : "");
    const other = state && state !== "done" ? [] : settingsChanged(lead?.start);
    this.changed.hidden = !other.length;
    setText(this.changed, other.length ? `changed: ${other.join(", ")}; press Run` : "");
    if (lead) return;
    setText(this.empty, doing ? `${doing}${measuring ? "" : " …"}` : nothingYet());
  }

  paintSentence(store, { now, whole, frozen }, soloState) {
    setText(this.sentence, sentence(store, now, whole) + (frozen && !whole ? " Stopped here." : ""));
    setText(this.basis, basisWords(store, now, whole, soloState));
  }
}
