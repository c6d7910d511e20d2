// What the models of the formula card share: the slider of a draft's cost, axes, and the measured point.

import { s } from "../base/dom.js";
import { formatFigure } from "../base/format.js";
import { axes } from "../draw/chart.js";

/** Its range grows with a cost above 1. */
export const costSlider = (c) => ({ name: "c", label: "c, draft step / plain round", most: Math.max(1, Math.ceil(c)) });

const BOX = { width: 560, height: 240, left: 44, right: 14, top: 12, bottom: 44 };

/** Axes of speed over something else up to `wide`. `marks` are named values. */
export function speedAxes(most, wide, marks, axis) {
  const ticks = Array.from({ length: Math.floor(most) + 1 }, (_, i) => i).filter(
    (tick) => most < 8 || tick % 2 === 0 || tick === 1,
  );
  return axes(BOX, { along: (value) => value / wide, most, ticks, marks, axis });
}

/** The measured point: a cross and a label, placed off the modelled curve and inside the picture. */
export function measuredPoint({ x, y }, at, speed, modelled) {
  const far = x(at) > BOX.width * 0.72;
  return [
    s("path.real", { d: `M${x(at) - 6} ${y(speed) - 6}l12 12m0 -12l-12 12` }),
    s(
      "text.caption",
      { x: x(at) + (far ? -10 : 10), y: y(speed) + (speed > modelled ? -8 : 18), "text-anchor": far ? "end" : "start" },
      `measured ${formatFigure(speed)}×`,
    ),
  ];
}
