// The speedup model of a tree: its shape is fixed; tau and the cost of a draft forward can be changed.
//
// A tree has no single alpha and no gamma: tau is whatever its rounds wrote. S = tau / (L c + v + o), L the draft
// forwards of a round, v the target's forward over all its nodes; all three costs are this run's medians.

import { s } from "../base/dom.js";
import { formatCost, formatFigure } from "../base/format.js";
import { html } from "../vendor/lit-html.js";
import { costSlider, measuredPoint, speedAxes } from "./formula-parts.js";

const FORMULA = "S = τ / (Lc + v + o), L draft steps per round. v and o are this run's; only this tree is modelled.";

export function treeModel(costs, lane) {
  const most = Math.max(...lane.rounds.map((round) => round.depth)) + 1;
  return {
    notes: html`<div>
      <p class="note">${FORMULA}</p>
      <p class="note">${treeWords(lane, costs)}</p>
    </div>`,
    sliders: [{ name: "tau", label: "τ, tokens per round", least: 1, most }, costSlider(costs.c)],
    measured: { tau: costs.tau, c: costs.c },
    modelled: (set) => modelled(set, costs, most),
  };
}

function modelled({ tau, c }, costs, most) {
  const cost = treeCost(c, costs);
  const times = `${formatFigure(costs.per)} × ${formatCost(c)} + ${formatFigure(costs.v)} + ${formatCost(costs.o)}`;
  const rest = ` = ${formatFigure(tau)} / (${times}) · a round costs ${formatFigure(cost)} plain rounds, so it is faster than plain above τ ${formatFigure(cost)}${cost > most ? ", which this tree cannot reach" : ""}.`;
  const whole = Array.from({ length: most }, (_, i) => [`${i + 1}, modelled`, (i + 1) / cost]);
  const rows = [...whole, [`${formatFigure(costs.tau)}, measured`, costs.measured]];
  return {
    words: html`<b>Modelled: S ${formatFigure(tau / cost)}</b>${rest}`,
    picture: chart(cost, tau, most, costs),
    rows: {
      label: "Speedup by τ",
      heads: ["τ", "S"],
      cells: rows.map(([name, speed]) => [name, `${formatFigure(speed)}×`]),
    },
  };
}

/** What a round of the tree costs, in plain rounds, with another draft forward. */
export const treeCost = (c, costs) => costs.per * c + costs.v + costs.o;

/** The tree's measured size, and its shape where the settings give one. */
function treeWords(lane, costs) {
  const { drafter, settings = {} } = lane.start || {};
  const full = /^(sampled|topk)-tree$/.test(drafter) && Array.isArray(settings.shape);
  const depth = lane.rounds.reduce((sum, r) => sum + r.depth, 0) / lane.rounds.length;
  return `This tree: ${full ? `children by depth ${settings.shape.join(", ")}; ` : ""}per round ${formatFigure(costs.drafted)} nodes, depth ${formatFigure(depth)} and ${formatFigure(costs.per)} draft steps (means).`;
}

function chart(cost, tau, most, costs) {
  const top = Math.max(1.2, costs.measured, most / cost) * 1.08;
  const axes = speedAxes(
    top,
    most,
    Array.from({ length: most }, (_, i) => i + 1),
    "τ, tokens per round",
  );
  const { x, y } = axes;
  return axes.svg(
    `Modelled speedup by τ: ${formatFigure(tau / cost)} at ${formatFigure(tau)}, 1 at ${formatFigure(cost)}; measured ${formatFigure(costs.measured)} at ${formatFigure(costs.tau)}`,
    s("polyline.model", { points: `${x(1)},${y(1 / cost)} ${x(most)},${y(most / cost)}` }),
    s("circle.chosen", { cx: x(tau), cy: y(tau / cost), r: 5.5 }),
    measuredPoint(axes, costs.tau, costs.measured, tau / cost),
  );
}
