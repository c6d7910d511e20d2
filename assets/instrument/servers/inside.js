// A server that records itself (engine/inside): a prompt is written there and its rounds are drawn as they come, or the
// rounds of an earlier request are opened. Both are shown as a run, the former also as one lane of a race.

import { askHost } from "../base/host.js";
import { choice, smallButton } from "../base/templates.js";
import { html, nothing } from "../vendor/lit-html.js";

const WHAT =
  "draftscope-vllm runs in this server and sends of every round what was drafted, p, q, the random numbers and the verdicts. The prompt and the sampling settings are this page's.";
const NONE = html`<span class="note">No request is recorded yet.</span>`;

/** `card`: {name, recorded: the names of earlier requests, the newest first, others: the other servers}, which keeps
 *  what is chosen in it. */
export function insideCard(card, busy, again, close) {
  const { name, recorded, others } = card;
  const beside = choice(
    "Race it beside",
    [["", "no other server"], ...others.map((other) => [other, other])],
    card.beside ?? "",
    (other) => (card.beside = other),
  );
  const ask = (request) => askHost("race", { kind: "inside", names: [name], request });
  const earlier = html`
    ${choice(
      "Recorded requests",
      recorded.map((request) => [request, request]),
      card.request ?? recorded[0],
      (request) => (card.request = request),
    )}
    ${smallButton("Open", () => ask(card.request ?? recorded[0]), busy)}
  `;
  return html`<section class="audit">
    <header class="card-head wrap">
      <h2>Inside ${name}</h2>
      <div class="controls">${smallButton("Close", close)}</div>
    </header>
    <p class="sum">${WHAT}</p>
    <div class="controls">
      <button class="small strong" type="button" ?disabled=${busy} @click=${() => watch(card, ask)}>
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
