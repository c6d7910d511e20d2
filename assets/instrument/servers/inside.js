// A server that records itself (engine/inside): a prompt is written there and its rounds are drawn as they come, or the
// rounds of an earlier request are opened. Both are shown as a run, the former also as one lane of a race.

import { button, h, remark } from "../base/dom.js";
import { askHost } from "../base/host.js";

const WHAT =
  "draftscope-vllm runs in this server and sends of every round what was drafted, p, q, the random numbers and the verdicts. The prompt and the sampling settings are this page's.";
const NONE = "No request is recorded yet.";

export class InsideCard {
  /** `recorded` are the names of earlier requests, the newest first; `others` are the other servers. */
  constructor(name, recorded, others, again, close) {
    this.name = name;
    this.write = button("Write the prompt and watch", () => this.watch(), { class: "small strong" });
    this.beside = h(
      "select",
      { "aria-label": "Race it beside" },
      h("option", { value: "" }, "no other server"),
      others.map((other) => h("option", { value: other }, other)),
    );
    this.list = h(
      "select.recorded",
      { "aria-label": "Recorded requests" },
      recorded.map((request) => h("option", { value: request }, request)),
    );
    this.open = button("Open", () => this.ask(this.list.value));
    this.again = button("Look again", again);
    const earlier = recorded.length ? [this.list, this.open] : [h("span.note", NONE)];
    this.root = h(
      "section.audit",
      h("header.card-head.wrap", h("h2", `Inside ${name}`), h("div.controls", button("Close", close))),
      remark(WHAT),
      h("div.controls", this.write, others.length ? h("label.stated", "beside ", this.beside) : null),
      h("div.controls", h("span.note", "earlier requests:"), earlier, this.again),
    );
  }

  paint(busy) {
    for (const control of [this.write, this.open, this.again]) control.disabled = busy;
  }

  /** Alone, or as the second lane of a race whose other lane gets the prompt at the same moment. */
  watch() {
    const { name } = this;
    if (this.beside.value) askHost("race", { kind: "race", names: [this.beside.value, name], inside: [name] });
    else this.ask("");
  }

  ask(request) {
    askHost("race", { kind: "inside", names: [this.name], request });
  }
}
