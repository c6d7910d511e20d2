// What both faces of the formula card are made of: sliders, a table, axes, and the measured point.

import { button, h, s, setText } from "../base/dom.js";
import { formatFigure, formatProb } from "../base/format.js";
import { axes } from "../draw/chart.js";
import { scrollable, table } from "../draw/tables.js";
import { html } from "../vendor/lit-html.js";

export const formulaReset = (act) => button("As measured", act);

export const formulaTable = (label, heads, rows) =>
  html`<details>
    <summary>The curve as a table</summary>
    ${scrollable(label, table(heads, rows))}
  </details>`;

export function slider(label, min, max, step, changed) {
  const value = h("output");
  const input = h("input", {
    type: "range",
    min: String(min),
    max: String(max),
    step: String(step),
    "aria-label": label,
  });
  const say = () =>
    setText(
      value,
      step === 1
        ? input.value
        : Number(input.max) > 1
          ? formatFigure(Number(input.value))
          : formatProb(Number(input.value)),
    );
  input.addEventListener("input", () => {
    say();
    changed();
  });
  return {
    root: h("label.slider", h("span", label), value, input),
    value: () => Number(input.value),
    set: (x) => {
      input.value = String(x);
      say();
    },
    upTo: (x) => {
      input.max = String(x);
    },
    /** As `set`; a value above the range widens it, for the browser would cut it to the largest. */
    setWidening: (x) => {
      input.max = String(Math.max(1, Math.ceil(x)));
      input.value = String(x);
      say();
    },
  };
}

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
