// The axes of a chart: named heights with a line each, names below, and what is drawn between them.

import { s } from "../base/dom.js";

/** `along` places a value of x from 0 to 1, `most` is the largest height; `ticks` are heights, which `names` words, and
 *  `marks` the values that are named below, so far `below` the lowest line. With `one`, the height 1 stands out. */
export function axes(box, { along, most, ticks, names = (tick) => `${tick}×`, marks, axis, one = true }) {
  const { width, height, left, right, top, bottom, below = 17 } = box;
  const x = (value) => left + along(value) * (width - left - right);
  const y = (value) => height - bottom - (value / most) * (height - top - bottom);
  const text = (at, down, anchor, words) => s("text", { x: at, y: down, "text-anchor": anchor }, words);
  const level = (tick) => [
    s("line", { class: one && tick === 1 ? "one" : null, x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
    text(left - 8, y(tick) + 4, "end", names(tick)),
  ];
  const svg = (label, ...children) =>
    s(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
      ticks.flatMap(level),
      marks.map((mark) => text(x(mark), height - bottom + below, "middle", String(mark))),
      text(width - right, height - 5, "end", axis),
      ...children,
    );
  return { x, y, svg };
}

/** A line through points that are placed by `x` and `y`. */
export const polyline = (points, x, y, look) =>
  s("polyline", { ...look, points: points.map((point) => `${x(point.x)},${y(point.y)}`).join(" ") });
