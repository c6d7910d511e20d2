// What a card asks the host for: a button that begins it, one that stops it, and how the answer stands.

import { html, nothing } from "../vendor/lit-html.js";
import { askHost, pressStop, say } from "./host.js";
import { smallButton } from "./templates.js";

export class Task {
  constructor(kind, words) {
    this.kind = kind;
    this.words = words;
    this.answer = null;
  }

  ask() {
    this.requested = true;
    say(""); // what was refused before is over
    askHost(this.kind, null);
  }

  get running() {
    return Boolean(this.answer) && this.answer.state !== "done";
  }

  /** True where the answer goes on that this page did not ask for: it was reloaded meanwhile. */
  take(answer) {
    const goesOn = !this.requested && !this.running && answer.state !== "done";
    this.answer = answer;
    if (answer.state === "done" && answer.note) say(answer.note);
    return goesOn;
  }

  /** `progress` says how far it is, `over` how it ended. */
  template(able, progress, over) {
    const { running, answer, words } = this;
    return html`<div class="controls">
      ${smallButton(words, () => this.ask(), !able || running)} ${running ? smallButton("Cancel", pressStop) : nothing}
      <span class="stated" role="status">${running ? answer.waits || progress(answer) : over}</span>
    </div>`;
  }
}
