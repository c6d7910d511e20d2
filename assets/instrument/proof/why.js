// Why this fast: the run's figures, its whole time to scale, the formula's prediction beside what was measured, jitter.

import { h } from "../base/dom.js";
import { counted, formatCost, formatFigure, formatMs } from "../base/format.js";
import { costsOf, isChain, jitterOf, timeSpent } from "../base/numbers.js";
import { draftLane, plainLane, roundsAt, stateAt } from "../base/store.js";
import { explained } from "../base/symbols.js";
import { scrollable, table } from "../draw/tables.js";
import { FormulaCard } from "./formula.js";
import { runFigures } from "../run/sentence.js";
import { laneTitle } from "../run/titles.js";
import { html, nothing, render } from "../vendor/lit-html.js";

export class WhyView {
  constructor() {
    this.run = h("div.sheet");
    this.formula = new FormulaCard();
    this.root = h("div.sheet", this.run, this.formula.root);
  }

  paint({ store, now, whole, soloState }) {
    const costs = whole ? costsOf(draftLane(store), plainLane(store)) : null;
    const view = html`
      <dl class="figures">${runFigures(store, now, soloState).map(figure)}</dl>
      <h4>Time of the whole run</h4>
      <div class="scale-body">${totals(store, now)}</div>
      <div class="block">${draftLane(store) && plainLane(store) ? prediction(costs, whole, store) : nothing}</div>
      <h4>Latency between tokens</h4>
      ${scrollable("Jitter", whole ? jitterTable(store) : LATER)}
    `;
    render(view, this.run);
    this.formula.root.hidden = !costs;
    if (costs) this.formula.paint(costs, draftLane(store));
  }
}

const LATER = html`<p class="sum">Shown at the end of the run.</p>`;

/** A figure with its label and what it is divided by. */
const figure = ({ id, value, label, detail, tone = "" }) =>
  html`<div class="figure" data-figure=${id}>
    <dt class="label">${label}</dt>
    <dd class="value ${tone}">${value}</dd>
    <dd class="detail">${detail}</dd>
  </div>`;

const KINDS = [
  ["prefill", "prompt", "read"],
  ["draft", "draft steps", "draft"],
  ["verify", "target", "verify"],
  ["other", "everything else", "other"],
];

function totals(store, now) {
  const lanes = store.lanes
    .map((lane) => ({ lane, rounds: roundsAt(lane, now) }))
    .map((at) => ({ ...at, spent: timeSpent(at.lane, at.rounds) }));
  const whole = ({ spent }) => KINDS.reduce((sum, [kind]) => sum + spent[kind], 0);
  const ruler = Math.max(1e-9, ...lanes.map(whole));
  return lanes.map((at) => {
    const tokens = stateAt(at.lane, now).tokens;
    const words = `${formatMs(whole(at))} for ${counted(tokens, "token")}: ${KINDS.filter(
      ([kind]) => at.spent[kind] > 0,
    )
      .map(([kind, name]) => `${name} ${formatMs(at.spent[kind])}`)
      .join(" + ")}`;
    const bar = ([kind, name, look]) =>
      html`<i
        class=${look}
        title="${name}: ${formatMs(at.spent[kind])}"
        style="flex-grow: ${at.spent[kind] / whole(at)}"
      ></i>`;
    return html`<div class="scale-row">
      <span class="scale-name">${laneTitle(at.lane)}</span>
      <div>
        <div class="scale-bar" role="img" aria-label=${words} style="width: ${(100 * whole(at)) / ruler}%">
          ${KINDS.filter(([kind]) => at.spent[kind] > 0).map(bar)}
        </div>
      </div>
      <span class="scale-words">${words}</span>
    </div>`;
  });
}

function prediction(costs, whole, store) {
  if (!costs)
    return html`<p class="sum">
      ${whole ? "Too few rounds for a prediction." : "Predicted and measured speedup: shown at the end of the run."}
    </p>`;
  const { tau, per, c, v, o, predicted, measured, one } = costs;
  const forwards = isChain(draftLane(store)) ? "γ" : "L";
  return html`
    <h4>Predicted and measured speedup</h4>
    <p class="equation">
      ${["S = τ / (", forwards, "c + v + o) = "].flatMap(explained)}<b>${formatFigure(tau)}</b>
      / (${formatFigure(per)} × ${formatCost(c)} + ${formatFigure(v)} + ${formatCost(o)}) =
      <b>${formatFigure(predicted)}×</b> predicted, <b>${formatFigure(measured)}×</b> measured without reading the
      prompt
    </p>
    <p class="sum">
      c, v and o are medians of this run's stages divided by the median plain round (${formatMs(one)}); ${forwards} is
      the number of draft steps per round. Measured: tokens/s of both lanes in this race; the headline's ratio includes
      reading the prompt.
    </p>
  `;
}

const HEADS = ["lane", "TTFT", "ITL p50", "p95", "p99", "ICL p50", "p95", "p99"];

function jitterTable(store) {
  const rows = store.lanes.map((lane) => ({ lane, at: jitterOf(lane) })).filter(({ lane }) => lane.rounds.length > 1);
  if (!rows.length) return LATER;
  const gaps = (kind) => rows.map(({ at }) => at[kind].n).join(" and ");
  const cells = ({ lane, at: { ttft, itl, icl } }) => [
    laneTitle(lane),
    ...[ttft, itl.p50, itl.p95, itl.p99, icl.p50, icl.p95, icl.p99].map(formatMs),
  ];
  return html`
    ${table(HEADS, rows.map(cells))}
    <p class="sum">
      TTFT: reading the prompt and the first round. ITL: gaps between tokens, 0 within a round (${gaps("itl")} gaps).
      ICL: gaps between rounds (${gaps("icl")}). On each lane's own clock, which counts only its own work.
    </p>
  `;
}
