// Lines over requests at once, whose axis doubles: a dashed line is predicted, a bar across marks where drafting ends.

import { s } from "../../../base/dom.js";
import { niceTicks } from "../../../base/numbers.js";
import { axes, polyline } from "../../../draw/chart.js";
import { html, nothing } from "../../../vendor/lit-html.js";
import { stopWords } from "./load-curve.js";

const BOX = { width: 460, height: 230, left: 46, right: 12, top: 14, bottom: 42 };
const SHAPES = [circle, square, diamond];

/**
 * `series`: [{name, lane, points, predicted}], `lanes`: all names, which give a line its shape, `places`: x values on
 * the axis, `stops`: where a server stops drafting, {lane, from, nothing}.
 */
export function chart({ series, lanes, places, stops = [], unit, one = false, label }) {
  const most = Math.max(one ? 1.2 : 0, ...series.flatMap(({ points }) => points.map(({ y }) => y))) * 1.08 || 1;
  const [low, high] = [places[0], places[places.length - 1]];
  const along = (x) => (high > low ? Math.log(x / low) / Math.log(high / low) : 0);
  const ticks = niceTicks(most, 4);
  const { x, y, svg } = axes(BOX, {
    along: (value) => 0.03 + 0.94 * along(value),
    most,
    ticks: one && !ticks.includes(1) ? [...ticks, 1] : ticks,
    names: (tick) => `${Number(tick.toPrecision(3))}${one ? "×" : ""}`,
    marks: places,
    axis: "requests at once",
    one,
  });
  const stopLine = (stop) =>
    s(
      "line.stops",
      { x1: x(stop.from), x2: x(stop.from), y1: BOX.top, y2: BOX.height - BOX.bottom },
      s("title", `${stop.lane} ${stopWords([stop])} from ${stop.from} on`),
    );
  const lines = series.flatMap((curve) => line(curve, lanes, x, y));
  return html`<div class="curve load" data-unit=${unit}>
    ${svg(label, stops.map(stopLine), lines)}
    <p class="legend lines">
      ${series.map((curve) => key(curve, lanes))}
      ${stops.length ? html`<span><i class="bar"></i>${stopWords(stops)} from here on</span>` : nothing}
    </p>
  </div>`;
}

const ENDS = [
  { x: 1, y: 6 },
  { x: 25, y: 6 },
];

const shapeOf = ({ lane, predicted }, lanes) => (predicted ? ring : SHAPES[lanes.indexOf(lane) % SHAPES.length]);

function line(curve, lanes, x, y) {
  const shape = shapeOf(curve, lanes);
  return [
    polyline(curve.points, x, y, {
      class: curve.predicted ? "predicted" : lanes.indexOf(curve.lane) ? "other" : "",
    }),
    ...curve.points.map((point) => shape(x(point.x), y(point.y))),
  ];
}

function key(curve, lanes) {
  const shape = shapeOf(curve, lanes);
  const [stroke] = line({ ...curve, points: ENDS }, lanes, Number, Number);
  return html`<span>
    <svg viewBox="0 0 26 12" width="26" height="12" aria-hidden="true">${stroke}${shape(13, 6)}</svg>${curve.name}
  </span>`;
}

function circle(x, y) {
  return s("circle", { cx: x, cy: y, r: 3.6 });
}

function ring(x, y) {
  return s("circle.ring", { cx: x, cy: y, r: 3.2 });
}

function square(x, y) {
  return s("rect", { x: x - 3.2, y: y - 3.2, width: 6.4, height: 6.4 });
}

function diamond(x, y) {
  return s("path", { d: `M${x} ${y - 4.4}l4.4 4.4l-4.4 4.4l-4.4 -4.4z` });
}
