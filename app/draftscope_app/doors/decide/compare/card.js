// Compare: every drafter on one prompt, whole runs taking turns, measured when asked for. A table, one row a drafter.
//
// Rows are folded from the engine's `compared` events (engine/draftscope/measure/compare.py); a finished comparison
// stays until the next one is finished.

import { h } from "../../../base/dom.js";
import { formatFigure, formatFixed, formatProb, shorten } from "../../../base/format.js";
import { askHost, hostCan } from "../../../base/host.js";
import { keep, recall } from "../../../base/kept.js";
import { Task } from "../../../base/task.js";
import { SortedTable } from "../../../draw/tables.js";
import { html, keyed, nothing, render } from "../../../vendor/lit-html.js";
import { samplingWords } from "../../../run/provenance.js";
import sheet from "./card.css" with { type: "css" };
import { comparedRows, evenWithFastest, isNoise, noiseOfRows, sortedRows } from "./compared-rows.js";

const COLUMNS = [
  ["title", "drafter", ""],
  ["c", "c", "one draft step / one round of plain decoding (medians)"],
  ["tau", "τ", "tokens / rounds"],
  ["perSecond", "tokens/s", "tokens / median time of a whole run, reading the prompt included"],
  [
    "times",
    "× plain",
    "tokens/s / tokens/s of plain decoding, same comparison; in brackets the range of the pairs of runs; ≈: it overlaps with the fastest's",
  ],
  ["runs", "runs", "whole runs"],
];
const LEGEND = COLUMNS.slice(1, 5)
  .map(([, name, meaning]) => `${name}: ${meaning}`)
  .join(" · ");
const fits = (kept) =>
  Array.isArray(kept.ev) &&
  kept.ev.every((event) => Array.isArray(event.seconds) && typeof event.title === "string") &&
  typeof kept.about?.prompt === "string";

class CompareView {
  constructor({ request }) {
    this.repaint = request;
    this.task = new Task("compare", "Compare all drafters");
    this.done = recall("compare", fits); // the last one that was finished
    const falls = (by) => by !== "title" && by !== "c";
    this.table = new SortedTable("Drafters compared", COLUMNS, falls, request, { by: "times", down: true });
    this.root = h("div.sheet.compare");
  }

  absent() {
    return !hostCan("compare");
  }

  get answer() {
    return this.task.answer;
  }

  /** True for one that goes on from before a reload. */
  take(answer) {
    const goesOn = this.task.take(answer);
    const whole = answer.state === "done" && !answer.note && answer.about && runsOf(answer) === wanted(answer);
    if (whole) {
      this.done = { about: answer.about, ev: answer.ev };
      keep("compare", this.done);
    }
    this.repaint();
    return goesOn;
  }

  get running() {
    return this.task.running;
  }

  paint({ busy }) {
    const { answer, done, running } = this;
    const cut = answer && !answer.note && runsOf(answer) < wanted(answer);
    const kept = done ? ": the last complete comparison is shown" : "";
    const shown = running && answer.ev.length ? answer : done;
    const view = html`
      <p class="sum">
        Runs every drafter available here on this prompt with these settings: whole runs, taking turns, nothing
        recorded.
      </p>
      ${this.task.template(!busy, progressOf, cut ? `cancelled${kept}` : "")} ${shown ? this.results(shown) : nothing}
    `;
    render(view, this.root);
  }

  results({ about, ev }) {
    const rows = comparedRows(ev);
    const [noise, even] = [noiseOfRows(rows), new Set(evenWithFastest(rows))];
    return html`
      <p class="note">${aboutWords(about)}</p>
      ${noise.length ? html`<p class="noise">Noise: ${noise.join("; ")}.</p>` : nothing}
      ${this.table.template((by, down) => sortedRows(rows, by, down).map((row) => line(row, even.has(row.lane))))}
      <p class="sum">${LEGEND}. Click a drafter's name to select it in the controls.</p>
    `;
  }
}

function line(row, even) {
  const marks = [
    row.synthetic ? "synthetic" : "",
    row.exact ? "" : `lossy: ${row.rule}`,
    isNoise(row) ? "noise" : "",
  ].filter(Boolean);
  const figures = [
    formatProb(row.c),
    formatFixed(row.tau, 2),
    formatFigure(row.perSecond),
    Number.isFinite(row.times) ? `${row.times.toFixed(2)}×${rangeWords(row.range)}${even ? " ≈" : ""}` : "–",
    String(row.runs),
  ];
  const select = () => askHost("set", { drafter: row.drafter });
  const cells = row.refused
    ? html`<td colspan="5">${row.refused}</td>`
    : figures.map((figure) => html`<td>${figure}</td>`);
  const view = html`<tr data-drafter=${row.drafter}>
    <th scope="row">
      <button class="link" type="button" @click=${select}>${row.title}</button>
      ${marks.map((text) => html`<span class="badge caveat">${text}</span>`)}
      ${row.why ? html`<span class="note why">${row.why}</span>` : nothing}
    </th>
    ${cells}
  </tr>`;
  return keyed(row.lane, view);
}

const rangeWords = (ratios) =>
  ratios.length > 1 ? ` [${Math.min(...ratios).toFixed(2)}, ${Math.max(...ratios).toFixed(2)}]` : "";

const runsOf = (answer) =>
  comparedRows(answer.ev).reduce((sum, row) => sum + (row.refused ? answer.about.repeats : row.runs), 0);
const wanted = (answer) => answer.about.lanes * answer.about.repeats;

const progressOf = (answer) => `${runsOf(answer)} of ${wanted(answer)} runs`;

function aboutWords(about) {
  const when = String(about.created).slice(0, 16).replace("T", " ");
  return `“${shorten(about.prompt, 60)}” · ${samplingWords(about)} · seed ${about.seed} · at most ${about.tokens} tokens · ${when} UTC`;
}

export const card = {
  area: "unfold",
  title: "Compare",
  noun: "comparison",
  hears: "compare",
  sheet,
  make: (page) => new CompareView(page),
};
