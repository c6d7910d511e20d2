// Acceptance over time: a curve of shares whose points can be chosen, by a click or with a slider.

import { s } from "../base/dom.js";
import { formatProb } from "../base/format.js";
import { html } from "../vendor/lit-html.js";
import { axes, polyline } from "./chart.js";

const BOX = { width: 560, height: 200, left: 64, right: 26, top: 14, bottom: 54, below: 28 };
const QUARTERS = [0, 0.25, 0.5, 0.75, 1];

/** `points`: {x, y}, y a share; `span`: the first and the last x; `slider` names what a point is. `at`: the index of the
 *  point that is chosen, or -1. */
export function shareCurve({ legend, points, span: [from, to], axis, slider, at, choose }) {
  const { x, y, svg } = axes(BOX, {
    along: (value) => (to > from ? (value - from) / (to - from) : 0),
    most: 1,
    ticks: [0, 0.5, 1],
    names: (tick) => `${100 * tick}%`,
    marks: [...new Set(QUARTERS.map((share) => Math.round(from + share * (to - from))))],
    axis,
    one: false,
  });
  const dot = (point, i) =>
    s("circle", { cx: x(point.x), cy: y(point.y), r: i === at ? 7 : 4, on: { click: () => choose(i) } });
  const label = `${legend} ${points.map((point) => formatProb(point.y)).join(", ")}`;
  return html`<p class="legend">${legend}</p>
    <div class="share-curve">${svg(label, polyline(points, x, y), ...points.map(dot))}</div>
    <label class="legend"
      >${slider}
      <input
        type="range"
        min="0"
        max=${points.length - 1}
        .value=${Math.max(0, at)}
        @input=${({ target }) => choose(Number(target.value))}
      />
    </label>`;
}
