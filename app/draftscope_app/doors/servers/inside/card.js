// A server that records itself (engine/inside): a prompt is written there and its rounds are drawn as they come, or the
// rounds of an earlier request are opened. Both are shown as a run, the former also as one lane of a race.

import { askHost, callServer, say } from "../../../base/host.js";
import { newestOf } from "../../../base/order.js";
import { choice, smallButton } from "../../../base/templates.js";
import { html, nothing } from "../../../vendor/lit-html.js";

const WHAT =
  "draftscope-vllm runs in this server and sends of every round what was drafted, p, q, the random numbers and the verdicts. The prompt and the sampling settings are this page's.";
const NONE = html`<span class="note">No request is recorded yet.</span>`;

class Inside {
  constructor({ request }) {
    this.repaint = request;
    this.shown = null; // {name, recorded: the names of earlier requests, the newest first, others: the other servers}
    this.newest = newestOf(); // of the servers that are looked into
    this.asks = "inside";
    this.about = "Inside shows the rounds of a vLLM that records them.";
  }

  get answered() {
    return Boolean(this.shown);
  }

  button(_, name, busy) {
    return smallButton("Inside", () => this.look(name), busy, `Inside ${name}`);
  }

  /** What the recorder inside a server has; a sentence where there is none. */
  async look(name) {
    const reply = await this.newest(callServer("recorded", name));
    if (!reply) return;
    if (reply.note) say(reply.note);
    const others = reply.servers?.filter((other) => other !== name);
    this.set(reply.recorded ? { name, recorded: reply.recorded, others } : null);
  }

  set(shown) {
    this.shown = shown;
    this.repaint();
  }

  /** Whatever is still looked for stays closed. */
  close() {
    this.newest(null);
    this.set(null);
  }

  answers(_, busy) {
    const { shown } = this;
    if (!shown) return nothing;
    return template(
      shown,
      busy,
      () => this.look(shown.name),
      () => this.close(),
    );
  }
}

/** Of one server, whose `shown` keeps what is chosen in it. */
function template(shown, busy, again, close) {
  const { name, recorded, others } = shown;
  const beside = choice(
    "Race it beside",
    [["", "no other server"], ...others.map((other) => [other, other])],
    shown.beside ?? "",
    (other) => (shown.beside = other),
  );
  const ask = (request) => askHost("inside", { kind: "inside", names: [name], request });
  const earlier = html`
    ${choice(
      "Recorded requests",
      recorded.map((request) => [request, request]),
      shown.request ?? recorded[0],
      (request) => (shown.request = request),
    )}
    ${smallButton("Open", () => ask(shown.request ?? recorded[0]), busy)}
  `;
  return html`<section class="audit">
    <header class="card-head wrap">
      <h2>Inside ${name}</h2>
      <div class="controls">${smallButton("Close", close)}</div>
    </header>
    <p class="sum">${WHAT}</p>
    <div class="controls">
      <button class="small strong" type="button" ?disabled=${busy} @click=${() => watch(shown, ask)}>
        Write the prompt and watch
      </button>
      ${others.length ? html`<label class="stated">beside ${beside}</label>` : nothing}
    </div>
    <div class="controls">
      <span class="note">earlier requests:</span>
      ${recorded.length ? earlier : NONE} ${smallButton("Look again", again, busy)}
    </div>
  </section>`;
}

/** Alone, or as the second lane of a race whose other lane gets the prompt at the same moment. */
function watch({ name, beside }, ask) {
  if (beside) askHost("race", { kind: "race", names: [beside, name], inside: [name] });
  else ask("");
}

export const card = { area: "servers", door: "servers", make: (page) => new Inside(page) };
