// Why this fast: the run's figures, its whole time to scale, the formula's prediction beside what was measured, jitter.

import { h, remark } from "../base/dom.js";
import { counted, formatCost, formatFigure, formatMs } from "../base/format.js";
import { costsOf, isChain, jitterOf, timeSpent } from "../base/numbers.js";
import { draftLane, plainLane, roundsAt, stateAt } from "../base/store.js";
import { explained } from "../base/symbols.js";
import { scrollable, table } from "../draw/tables.js";
import { FormulaCard } from "./formula.js";
import { runFigures } from "../run/sentence.js";
import { laneTitle } from "../run/titles.js";

export class WhyView {
  constructor() {
    this.figures = h("dl.figures");
    this.totals = h("div.scale-body");
    this.predicted = h("div.block");
    this.jitter = scrollable("Jitter");
    this.formula = new FormulaCard();
    this.root = h(
      "div.sheet",
      this.figures,
      h("h4", "Time of the whole run"),
      this.totals,
      this.predicted,
      h("h4", "Latency between tokens"),
      this.jitter,
      this.formula.root,
    );
  }

  paint({ store, now, whole, soloState }) {
    this.paintFigures(runFigures(store, now, soloState));
    const stamp = `${store.run}/${store.lanes.map((lane) => `${roundsAt(lane, now)}${lane.verify ? "v" : ""}`).join()}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.totals.replaceChildren(...totals(store, now));
    const costs = whole ? costsOf(draftLane(store), plainLane(store)) : null;
    this.predicted.replaceChildren(...prediction(costs, whole, store));
    this.jitter.replaceChildren(jitterTable(store, whole));
    this.formula.root.hidden = !costs;
    if (costs) this.formula.paint(costs, draftLane(store));
  }

  paintFigures(figures) {
    const said = JSON.stringify(figures);
    if (said === this.said) return;
    this.said = said;
    this.figures.replaceChildren(...figures.map(figure));
  }
}

/** A figure with its label and what it is divided by. */
const figure = ({ id, value, label, detail, tone = "" }) =>
  h(
    "div.figure",
    { "data-figure": id },
    h("dt.label", label),
    h("dd", { class: `value ${tone}` }, value),
    h("dd.detail", detail),
  );

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
    const bars = KINDS.filter(([kind]) => at.spent[kind] > 0).map(([kind, name, look]) =>
      h("i", {
        class: look,
        title: `${name}: ${formatMs(at.spent[kind])}`,
        style: { "flex-grow": String(at.spent[kind] / whole(at)) },
      }),
    );
    return h(
      "div.scale-row",
      h("span.scale-name", laneTitle(at.lane)),
      h(
        "div",
        h(
          "div.scale-bar",
          { role: "img", "aria-label": words, style: { width: `${(100 * whole(at)) / ruler}%` } },
          bars,
        ),
      ),
      h("span.scale-words", words),
    );
  });
}

function prediction(costs, whole, store) {
  if (!draftLane(store) || !plainLane(store)) return [];
  if (!costs)
    return [
      remark(
        whole ? "Too few rounds for a prediction." : "Predicted and measured speedup: shown at the end of the run.",
      ),
    ];
  const { tau, per, c, v, o, predicted, measured, one } = costs;
  const forwards = isChain(draftLane(store)) ? "γ" : "L";
  return [
    h("h4", "Predicted and measured speedup"),
    h(
      "p.equation",
      ["S = τ / (", forwards, "c + v + o) = "].flatMap(explained),
      h("b", formatFigure(tau)),
      ` / (${formatFigure(per)} × ${formatCost(c)} + ${formatFigure(v)} + ${formatCost(o)}) = `,
      h("b", `${formatFigure(predicted)}×`),
      " predicted, ",
      h("b", `${formatFigure(measured)}×`),
      " measured without reading the prompt",
    ),
    remark(
      `c, v and o are medians of this run's stages divided by the median plain round (${formatMs(one)}); ${forwards} is the number of draft steps per round. Measured: tokens/s of both lanes in this race; the headline's ratio includes reading the prompt.`,
    ),
  ];
}

function jitterTable(store, whole) {
  const head = ["lane", "TTFT", "ITL p50", "p95", "p99", "ICL p50", "p95", "p99"];
  const rows = store.lanes.map((lane) => ({ lane, at: jitterOf(lane) })).filter(({ lane }) => lane.rounds.length > 1);
  if (!whole || !rows.length) return remark("Shown at the end of the run.");
  return h(
    "div",
    table(
      head,
      rows.map(({ lane, at: { ttft, itl, icl } }) => [
        laneTitle(lane),
        ...[ttft, itl.p50, itl.p95, itl.p99, icl.p50, icl.p95, icl.p99].map(formatMs),
      ]),
    ),
    remark(
      `TTFT: reading the prompt and the first round. ITL: gaps between tokens, 0 within a round (${rows.map(({ at }) => at.itl.n).join(" and ")} gaps). ICL: gaps between rounds (${rows.map(({ at }) => at.icl.n).join(" and ")}). On each lane's own clock, which counts only its own work.`,
    ),
  );
}
