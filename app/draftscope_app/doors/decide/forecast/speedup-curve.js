// The speedup along one axis with its interval, as wide as its place: lines stretch, words keep their size.

import { niceTicks } from "../../../base/numbers.js";
import { html, nothing, svg } from "../../../vendor/lit-html.js";

const CROWDED = 8; // values, above which every second is named where there is little room

/** `points`: [value, low, middle, high] in order; `at`: the value that was asked for; `stops`: where the middle falls
 *  below 1, if it does. */
export function curve({ points, usual, axis, at, stops }) {
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const most = Math.max(1.2, ...points.map(([, , , high]) => high)) * 1.04;
  const x = (value) => (100 * Math.log(value / first)) / Math.log(last / first);
  const y = (ratio) => 100 - (100 * ratio) / most;
  const along = (pick) => points.map((point) => `${x(point[0])},${y(pick(point))}`);
  const band = [...along(([, low]) => low), ...along((point) => point[3]).reverse()].join(" ");
  const wanted = points.find(([value]) => value === at);
  return html`<figure class="curve" aria-label=${spoken(points, axis)}>
    <figcaption>times plain decoding's tokens/s</figcaption>
    <div class="plot ${usual.length > CROWDED ? "crowded" : ""}">
      <div class="loss" style="top: ${y(1)}%"></div>
      <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
        ${niceTicks(most, 5).map((tick) => svg`<line x1="0" x2="100" y1=${y(tick)} y2=${y(tick)}></line>`)}
        <polygon points=${band}></polygon>
        <line class="one" x1="0" x2="100" y1=${y(1)} y2=${y(1)}></line>
        <polyline points=${along(([, , middle]) => middle).join(" ")}></polyline>
      </svg>
      ${niceTicks(most, 5).map((tick) => html`<span class="height" style="top: ${y(tick)}%">${short(tick)}</span>`)}
      ${usual.map((value) => html`<span class="value" style="left: ${x(value)}%">${short(value)}</span>`)}
      <span class="plain" style="top: ${y(1)}%">1: as fast as plain</span>
      ${stops && stops > first && stops < last ? mark("stops", x(stops), y(1), `pays up to ${stops}`) : nothing}
      ${wanted ? mark("asked-for", x(at), y(wanted[2]), `${wanted[2].toFixed(2)} at ${short(at)}`) : nothing}
    </div>
    <p class="axis">${axis}; the band holds nine of ten cases</p>
  </figure>`;
}

const mark = (name, left, top, words) =>
  html`<span class="mark ${name} ${left > 60 ? "before" : ""}" style="left: ${left}%; top: ${top}%"
    ><b>${words}</b></span
  >`;

/** A number as an axis names it: 1, 0.5, 16k. */
const short = (value) => (value >= 10_000 ? `${Math.round(value / 1000)}k` : String(Number(value.toPrecision(4))));

const spoken = (points, axis) =>
  `By ${axis}: ${points.map(([value, low, middle, high]) => `${value}: ${middle.toFixed(2)} [${low.toFixed(2)}, ${high.toFixed(2)}]`).join(", ")}`;
