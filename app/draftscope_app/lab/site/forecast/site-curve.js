// The speedup by concurrent requests, with its 90% band, and the line at plain decoding.

import { html, svg } from "../../../vendor/lit-html.js";

const [WIDE, HIGH] = [340, 210];
const EDGE = { left: 34, right: 58, top: 12, bottom: 40 };

/** `points` are {x, band: {middle, low, high}}, in order; `here` is the x that was asked for. */
export function curve(points, here) {
  const most = Math.max(1.5, ...points.map(({ band }) => band.high));
  const last = Math.log2(points.at(-1).x) || 1;
  const x = (value) => EDGE.left + (Math.log2(value) / last) * (WIDE - EDGE.left - EDGE.right);
  const y = (value) => HIGH - EDGE.bottom - (value / most) * (HIGH - EDGE.top - EDGE.bottom);
  const path = (end, some = points) => some.map((point) => `${x(point.x)},${y(point.band[end])}`).join(" ");
  const ticks = Array.from({ length: Math.floor(most) + 1 }, (_, i) => i);
  const dot = ({ x: at, band }) => svg`<circle cx=${x(at)} cy=${y(band.middle)} r=${at === here ? 6 : 3}></circle>`;
  const mark = (at) => svg`<text x=${x(at)} y=${HIGH - EDGE.bottom + 18} class="middle">${at}</text>`;
  const words = points.map(({ x: at, band }) => `${at}: ${band.middle.toFixed(2)}`).join(", ");
  return html`<svg
    viewBox="0 0 ${WIDE} ${HIGH}"
    role="img"
    aria-label="Times plain decoding by concurrent requests: ${words}"
  >
    <polygon class="band" points="${path("high")} ${path("low", [...points].reverse())}"></polygon>
    ${ticks.map((tick) => svg`<text x=${EDGE.left - 8} y=${y(tick) + 4} class="end">${tick}</text>`)}
    <line class="one" x1=${EDGE.left} y1=${y(1)} x2=${WIDE - EDGE.right} y2=${y(1)}></line>
    <text x=${WIDE - EDGE.right + 8} y=${y(1) + 4}>1, plain</text>
    <polyline class="speed" points=${path("middle")}></polyline>
    ${points.map(dot)} ${points.filter((_, i) => i % 2 === 0).map((point) => mark(point.x))}
    <text x=${(EDGE.left + WIDE - EDGE.right) / 2} y=${HIGH - 4} class="middle">concurrent requests</text>
  </svg>`;
}
