// Lines over requests at once, whose axis doubles: a dashed line is predicted, a bar across marks where drafting ends.

import { h, s } from "../base/dom.js";
import { niceTicks } from "../base/numbers.js";
import { stopWords } from "./curve.js";

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
  const x = (value) => BOX.left + (0.03 + 0.94 * along(value)) * (BOX.width - BOX.left - BOX.right);
  const y = (value) => BOX.height - BOX.bottom - (value / most) * (BOX.height - BOX.top - BOX.bottom);
  return h(
    "div",
    { class: "curve load", "data-unit": unit },
    s(
      "svg",
      { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": label },
      niceTicks(most, 4).flatMap((tick) => [
        s("line", { x1: BOX.left, x2: BOX.width - BOX.right, y1: y(tick), y2: y(tick) }),
        s(
          "text",
          { x: BOX.left - 7, y: y(tick) + 4, "text-anchor": "end" },
          `${Number(tick.toPrecision(3))}${one ? "×" : ""}`,
        ),
      ]),
      one ? s("line", { class: "one", x1: BOX.left, x2: BOX.width - BOX.right, y1: y(1), y2: y(1) }) : null,
      stops.map((stop) =>
        s(
          "line",
          { class: "stops", x1: x(stop.from), x2: x(stop.from), y1: BOX.top, y2: BOX.height - BOX.bottom },
          s("title", {}, `${stop.lane} ${stopWords([stop])} from ${stop.from} on`),
        ),
      ),
      places.map((value) =>
        s("text", { x: x(value), y: BOX.height - BOX.bottom + 16, "text-anchor": "middle" }, String(value)),
      ),
      s("text", { x: BOX.width - BOX.right, y: BOX.height - 6, "text-anchor": "end" }, "requests at once"),
      series.flatMap((curve) => line(curve, lanes, x, y)),
    ),
    h(
      "p",
      { class: "legend lines" },
      series.map((curve) => key(curve, lanes)),
      stops.length ? h("span", {}, h("i", { class: "bar" }), `${stopWords(stops)} from here on`) : null,
    ),
  );
}

const shapeOf = ({ lane, predicted }, lanes) => (predicted ? ring : SHAPES[lanes.indexOf(lane) % SHAPES.length]);

function line(curve, lanes, x, y) {
  const shape = shapeOf(curve, lanes);
  return [
    s("polyline", {
      class: curve.predicted ? "predicted" : lanes.indexOf(curve.lane) ? "other" : "",
      points: curve.points.map((point) => `${x(point.x)},${y(point.y)}`).join(" "),
    }),
    ...curve.points.map((point) => shape(x(point.x), y(point.y))),
  ];
}

function key(curve, lanes) {
  const shape = shapeOf(curve, lanes);
  return h(
    "span",
    {},
    s(
      "svg",
      { viewBox: "0 0 26 12", width: 26, height: 12, "aria-hidden": "true" },
      line(
        {
          ...curve,
          points: [
            { x: 1, y: 6 },
            { x: 25, y: 6 },
          ],
        },
        lanes,
        (v) => v,
        (v) => v,
      ).slice(0, 1),
      shape(13, 6),
    ),
    curve.name,
  );
}

function circle(x, y) {
  return s("circle", { cx: x, cy: y, r: 3.6 });
}

function ring(x, y) {
  return s("circle", { class: "ring", cx: x, cy: y, r: 3.2 });
}

function square(x, y) {
  return s("rect", { x: x - 3.2, y: y - 3.2, width: 6.4, height: 6.4 });
}

function diamond(x, y) {
  return s("path", { d: `M${x} ${y - 4.4}l4.4 4.4l-4.4 4.4l-4.4 -4.4z` });
}
