// The drafters that can be chosen, in groups, each with a line: what it does, and what it gained. Those that cannot run with
// these models say why.

import { askHost } from "../base/host.js";
import { html, nothing, render } from "../vendor/lit-html.js";

let known = { of: "", lines: [] }; // once the engine has said: of what the shipped gains are, and the drafters

export function giveDrafters(drafters) {
  known = drafters;
}

/** Draws the list into the page's menu. `gain(drafter)` is what this tab measured, or null. */
export function showDrafters(gain, chosen) {
  const place = document.querySelector("#ds-drafters .ds-list");
  if (!place) return;
  const groups = Map.groupBy(known.lines, ({ group }) => group);
  const list = Array.from(
    groups,
    ([group, lines]) =>
      html`<h2>${group}</h2>
        <ul>
          ${lines.map((line) => html`<li>${line.lacks ? lacking(line) : offered(line, gain(line.name), chosen)}</li>`)}
        </ul>`,
  );
  render(
    html`${list}
      <p class="ds-muted">
        ${known.lines.some(shipped) ? html`<b>×</b> without “here”: over plain decoding on ${known.of}.` : nothing}
      </p>`,
    place,
  );
}

const shipped = ({ gain }) => gain > 0;

function offered({ name, title, does, gain }, here, chosen) {
  const choose = () => askHost("set", { drafter: name });
  const words = here ? `${here.ratio.toFixed(2)}× here` : gain ? `${gain.toFixed(2)}×` : "";
  const more = here && here.runs > 1 ? `median of ${here.runs} runs of this page` : nothing;
  return html`<button type="button" aria-pressed=${name === chosen} @click=${choose}>
    <b>${title}</b> <span>${does}</span> <i title=${more}>${words}</i>
  </button>`;
}

const lacking = ({ title, does, lacks }) =>
  html`<p class="ds-lacks"><b>${title}</b> <span>${does ? `${does}; ` : ""}not here: ${lacks}</span></p>`;
