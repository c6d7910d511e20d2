// When speculation does not pay, for the lesson of that name: the speed at every answer length, folded from the
// recorded run, and at every batch size, folded from the sweep's whole runs (tests/programs/record_sweep.py).
// Both against plain.

import { s } from "../../../base/dom.js";
import { counted, formatFigure, median } from "../../../base/format.js";
import { draftLane, plainLane } from "../../../base/store.js";
import { axes, polyline } from "../../../draw/chart.js";
import { foldedTable } from "../../../draw/tables.js";
import { html } from "../../../vendor/lit-html.js";

/** At each length that both lanes reached: plain's milliseconds over the drafting lane's, prompts included. */
export function byLength(store) {
  const [draft, plain] = [draftLane(store), plainLane(store)];
  const most = Math.min(draft.tokens.length, plain.tokens.length);
  return Array.from({ length: most }, (_, i) => ({ x: i + 1, y: plain.tokens[i].at / draft.tokens[i].at }));
}

/**
 * For each drafter and gamma of a sweep: at each batch the ratios to plain within the same repeat, and their median.
 */
export function byBatch(runs) {
  const plain = new Map(runs.filter((r) => r.drafter === "plain").map((r) => [`${r.batch}/${r.repeat}`, r]));
  const series = new Map();
  for (const run of runs.filter((r) => r.drafter !== "plain")) {
    const name = `γ ${run.gamma}`;
    if (!series.has(name)) series.set(name, new Map());
    const points = series.get(name);
    if (!points.has(run.batch)) points.set(run.batch, []);
    points.get(run.batch).push(plain.get(`${run.batch}/${run.repeat}`).seconds / run.seconds);
  }
  return [...series].map(([name, points]) => ({
    name,
    points: [...points].map(([x, all]) => ({ x, all, y: median(all) })),
  }));
}

/** Where a series lies below plain decoding, in words that only say what was measured. */
export function belowWords(points, unit) {
  const below = points.filter((at) => at.y < 1);
  const [first, last] = [points[0].x, points[points.length - 1].x];
  if (!below.length) return `never slower than plain decoding, from ${unit} ${first} to ${last}`;
  if (below.length === points.length) return `slower than plain decoding at every ${unit} from ${first} to ${last}`;
  const from = points.findIndex((at) => at.y < 1);
  if (points.slice(from).every((at) => at.y < 1))
    return `slower than plain decoding from ${unit} ${points[from].x} to the last, ${last}`;
  const until = points.findIndex((at) => at.y >= 1);
  if (points.slice(until).every((at) => at.y >= 1))
    return `slower than plain decoding up to ${unit} ${points[until - 1].x}, and not slower from ${points[until].x} to ${last}`;
  return `slower than plain decoding at ${below.length} of the ${points.length} measured values of ${unit}`;
}

const BOX = { width: 640, height: 230, left: 44, right: 60, top: 12, bottom: 40 };
const DASHES = ["", "7 4", "2 4"];

/** Heights for names that would lie on each other: a line apart, in their order. */
function namePlaces(heights) {
  const places = [...heights];
  const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
  order.forEach((i, k) => {
    if (k) places[i] = Math.max(heights[i], places[order[k - 1]] + 13);
  });
  return places;
}

/**
 * Lines over one axis, 1× marked; `places` are the values of x that are named on it, `at` where x lies, from 0 to 1.
 */
function chart({ series, places, at, axis, label }) {
  const top = Math.max(1.2, ...series.flatMap(({ points }) => points.flatMap((p) => p.all || [p.y]))) * 1.06;
  const ticks = Array.from({ length: Math.floor(top) + 1 }, (_, i) => i);
  const { x, y, svg } = axes(BOX, { along: at, most: top, ticks, marks: places, axis });
  const ends = namePlaces(series.map(({ points }) => y(points[points.length - 1].y) + 4));
  const line = ({ name, points }, i) => {
    const end = points[points.length - 1];
    return [
      polyline(points, x, y, { "stroke-dasharray": DASHES[i % DASHES.length] }),
      ...points
        .filter((p) => p.all)
        .flatMap((p) => [
          s("line.span", { x1: x(p.x), x2: x(p.x), y1: y(Math.min(...p.all)), y2: y(Math.max(...p.all)) }),
          s("circle", { cx: x(p.x), cy: y(p.y), r: 3.5 }),
        ]),
      name ? s("text.caption", { x: x(end.x) + 8, y: ends[i] }, name) : null,
    ];
  };
  return html`<div class="curve sweep">${svg(label, series.flatMap(line))}</div>`;
}

/** Speed against plain at each answer length. */
export function lengthPicture(store) {
  const points = byLength(store);
  const most = points[points.length - 1].x;
  const { start } = draftLane(store);
  const places = [1, ...[0.25, 0.5, 0.75, 1].map((share) => Math.round(most * share))];
  const picture = chart({
    series: [{ name: "", points }],
    places: [...new Set(places)],
    at: (x) => x / most,
    axis: "tokens of output",
    label: `Speed against plain decoding by answer length: ${belowWords(points, "token")}`,
  });
  const how = `Time of plain decoding / time of this lane for that many tokens, reading its prompt of ${start.prompt_tokens} tokens included; one recorded run of each, ${start.device}, ${counted(start.threads, "thread")}, ${start.created.slice(0, 10)}.`;
  const rows = points.map((p) => [p.x, `${formatFigure(p.y)}×`]);
  return shown(picture, how, foldedTable("The lengths as a table", ["tokens", "× plain"], rows));
}

const shown = (picture, how, rows) =>
  html`<div>
    ${picture}
    <p class="sum">${how}</p>
    ${rows}
  </div>`;

/** Speed against plain at each batch size. */
export function batchPicture(store) {
  const series = byBatch(store.sweep);
  const batches = series[0].points.map((p) => p.x);
  const rank = (x) => (batches.length > 1 ? batches.indexOf(x) / (batches.length - 1) : 0);
  const [run] = store.sweep;
  const repeats = series[0].points[0].all.length;
  const machine = `${run.machine.device}, ${counted(run.machine.threads, "thread")}, ${run.machine.dtype}, ${run.machine.date}`;
  const rows = series.flatMap(({ name, points }) =>
    points.map((p) => [`${name}, batch ${p.x}`, `${formatFigure(p.y)}×`, p.all.map(formatFigure).join(", ")]),
  );
  const picture = chart({
    series,
    places: batches,
    at: (x) => 0.02 + 0.96 * rank(x),
    axis: "batch size",
    label: `Speed against plain decoding by batch: ${series.map(({ name, points }) => `${name} ${belowWords(points, "batch")}`).join("; ")}`,
  });
  const how = `Whole runs, ${run.tokens} tokens for each continuation of one prompt at T ${run.temperature}: seconds of plain decoding / seconds of the drafter in the same repeat; median of ${repeats}, lines from minimum to maximum. Measured on ${machine}.`;
  return shown(picture, how, foldedTable("The batches as a table", ["", "× plain", "all repeats"], rows));
}

/** What the target's forward took at one batch: {plain, drafting, rows of each}; medians of the runs. */
export function forwardsAt(runs, batch, gamma) {
  const runsOf = (test) => runs.filter((r) => r.batch === batch && test(r));
  const medians = (all) => ({
    ms: median(all.map((r) => r.verify_ms)),
    rows: batch * Math.max(...all.map((r) => r.width)),
  });
  return { plain: medians(runsOf((r) => r.drafter === "plain")), drafting: medians(runsOf((r) => r.gamma === gamma)) };
}
