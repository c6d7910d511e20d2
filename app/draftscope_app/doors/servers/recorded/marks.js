// The bursts of each lane on one clock: a mark at each arrival, as high as its tokens are many.

import { niceTicks } from "../../../base/numbers.js";
import { html, svg } from "../../../vendor/lit-html.js";

const HIGH = 30; // of a lane
const SHARE = 0.55; // of it that one token takes; more tokens are stacked up to its whole height

/** `lanes`: {name, bursts: [ms, tokens, text]}; what came after `now` is not there yet, of `end` ms. */
export function marks(lanes, now, end) {
  const most = Math.max(2, ...lanes.flatMap(({ bursts }) => bursts.map(([, tokens]) => tokens)));
  const tall = (tokens) => HIGH * (tokens === 1 ? SHARE : SHARE + ((1 - SHARE) * (tokens - 1)) / (most - 1));
  const x = (ms) => (100 * ms) / end;
  const mark = ([ms, tokens]) => svg`<line x1=${x(ms)} x2=${x(ms)} y1=${HIGH - tall(tokens)} y2=${HIGH}></line>`;
  const lane = ({ name, bursts }) =>
    html`<b>${name}</b>
      <svg
        viewBox="0 0 100 ${HIGH}"
        preserveAspectRatio="none"
        role="img"
        aria-label="${name}: ${bursts.length} arrivals in ${(bursts.at(-1)[0] / 1000).toFixed(1)} s"
      >
        ${bursts.filter(([ms]) => ms <= now).map(mark)}
      </svg>`;
  const seconds = niceTicks(end / 1000, 5).filter((second) => second * 1000 <= end);
  return html`<div class="arrivals">
    ${lanes.map(lane)}<span></span>
    <div class="seconds">${seconds.map((s) => html`<span style="left: ${x(1000 * s)}%">${s} s</span>`)}</div>
  </div>`;
}
