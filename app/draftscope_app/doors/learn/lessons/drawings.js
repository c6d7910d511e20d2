// A small drawing for each lesson: what its pictures are made of. Marks say nothing of their own and carry no number.

import { s } from "../../../base/dom.js";
import { LESSONS } from "./lessons.js";

const bar = (x, y, width, look, height = 16) => s("rect", { class: look, x, y, width, height });
const node = (x, y, look) => {
  const round = look !== "rejected" && look !== "unvisited";
  return s("rect", { class: `node ${look}`, x, y, width: 26, height: 16, rx: round ? 8 : 2 });
};
const line = (d, look = "") => s("path", { class: look, d });
const blocks = (n, width, gap, y, look, x0 = 14, height = 16) =>
  Array.from({ length: n }, (_, i) => bar(x0 + i * (width + gap), y, width, look, height));
const edge = (x0, y0, x1, y1, look) =>
  line(`M${x0} ${y0}C${x0 + 14} ${y0} ${x1 - 14} ${y1} ${x1} ${y1}`, `edge ${look}`);
const chain = (looks, y) =>
  looks.flatMap((look, i) => [
    ...(i ? [edge(40 + 46 * (i - 1), y + 8, 14 + 46 * i, y + 8, look)] : []),
    node(14 + 46 * i, y, look),
  ]);

/** In the order of the lessons. */
const DRAWINGS = [
  () => [...blocks(4, 40, 3, 24, "target"), ...[34, 77, 120, 163].map((x) => line(`M${x} 50v12`, "tick"))],
  () => [
    ...chain(["root", "accepted", "accepted", "rejected"], 18),
    ...blocks(3, 8, 2, 50, "draft"),
    bar(46, 50, 132, "target"),
  ],
  () => [
    bar(14, 14, 60, "both", 12),
    bar(74, 14, 54, "excess", 12),
    bar(14, 32, 84, "both", 12),
    bar(98, 32, 36, "rest", 12),
    bar(14, 58, 164, "frame", 8),
    line("M110 52v20", "tick"),
  ],
  () => chain(["root", "accepted", "accepted", "bonus"], 32),
  () => blocks(8, 12, 9, 20, "frame", 14, 48).concat(blocks(8, 12, 9, 58, "correction", 14, 10)),
  () => [
    node(14, 34, "root"),
    edge(40, 42, 66, 22, "rejected"),
    node(66, 14, "rejected"),
    edge(40, 42, 66, 58, "accepted"),
    node(66, 50, "accepted"),
    edge(92, 58, 118, 46, "accepted"),
    node(118, 38, "accepted"),
    edge(92, 58, 118, 70, "unvisited"),
    node(118, 62, "unvisited"),
    edge(144, 46, 160, 46, "bonus"),
    node(160, 38, "bonus"),
  ],
  () => [
    ...Array.from({ length: 6 }, (_, i) => bar(18, 14 + 10 * i, 78, "target", 7)),
    edge(96, 18, 130, 42, "drafted"),
    edge(96, 68, 130, 42, "drafted"),
    bar(130, 28, 46, "draft", 28),
  ],
  () => [...blocks(3, 52, 3, 20, "target"), ...blocks(3, 9, 2, 50, "draft", 36), ...blocks(3, 9, 2, 50, "draft", 96)],
  () => [
    ...Array.from({ length: 12 }, (_, i) => line(`M${18 + 14 * i} 16v18`, "tick")),
    ...[18, 22, 26, 60, 88, 92, 96, 134, 138].map((x) => line(`M${x} 50v18`, "tick drafted")),
  ],
  () => [bar(14, 44, 164, "soft", 28), line("M14 44H178", "tick"), line("M14 18C70 20 120 46 178 68", "curve")],
  () => [line("M14 26H178", "dashed"), line("M14 68H178", "tick"), line("M14 68C70 66 90 60 120 40L136 18", "curve")],
];

/** The drawing of a lesson. */
export const drawing = (lesson) =>
  s("svg.drawing", { viewBox: "0 0 192 86", "aria-hidden": "true" }, DRAWINGS[LESSONS.indexOf(lesson)]());
