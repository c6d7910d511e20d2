// The speedup model of a tree: its shape is fixed; tau and the cost of a draft forward can be changed.
//
// A tree has no single alpha and no gamma: tau is whatever its rounds wrote. S = tau / (L c + v + o), L the draft
// forwards of a round, v the target's forward over all its nodes; all three costs are this run's medians.

import { h, s, setText } from "../base/dom.js";
import { formatCost, formatFigure } from "../base/format.js";
import { render } from "../vendor/lit-html.js";
import { formulaReset, formulaTable, measuredPoint, slider, speedAxes } from "./formula-parts.js";

export class TreeFormula {
  constructor() {
    this.sliders = {
      tau: slider("τ, tokens per round", 1, 2, "any", () => this.draw()),
      c: slider("c, draft step / plain round", 0, 1, "any", () => this.draw()),
    };
    this.shape = h("p.note");
    this.words = h("p.sum");
    this.picture = h("div.curve");
    this.table = h("div");
    const note = h(
      "div",
      h("p.note", "S = τ / (Lc + v + o), L draft steps per round. v and o are this run's; only this tree is modelled."),
      this.shape,
    );
    this.controls = [
      note,
      ...Object.values(this.sliders).map((x) => x.root),
      formulaReset(() => this.measured()),
      this.words,
    ];
    this.shown = [this.picture, this.table];
  }

  paint(costs, lane) {
    this.costs = costs;
    this.deepest = Math.max(...lane.rounds.map((r) => r.depth));
    setText(this.shape, treeWords(lane, costs));
    this.sliders.tau.upTo(this.deepest + 1);
    this.measured();
  }

  measured() {
    this.sliders.tau.set(this.costs.tau);
    this.sliders.c.setWidening(this.costs.c);
    this.draw();
  }

  draw() {
    const { costs } = this;
    const [tau, c] = ["tau", "c"].map((name) => this.sliders[name].value());
    const cost = treeCost(c, costs);
    this.words.replaceChildren(
      h("b", `Modelled: S ${formatFigure(tau / cost)}`),
      ` = ${formatFigure(tau)} / (${formatFigure(costs.per)} × ${formatCost(c)} + ${formatFigure(costs.v)} + ${formatCost(costs.o)}) · a round costs ${formatFigure(cost)} plain rounds, so it is faster than plain above τ ${formatFigure(cost)}${cost > this.deepest + 1 ? ", which this tree cannot reach" : ""}.`,
    );
    this.picture.replaceChildren(chart(cost, tau, this.deepest + 1, costs));
    const whole = Array.from({ length: this.deepest + 1 }, (_, i) => [`${i + 1}, modelled`, (i + 1) / cost]);
    const rows = [...whole, [`${formatFigure(costs.tau)}, measured`, costs.measured]];
    const cells = rows.map(([name, at]) => [name, `${formatFigure(at)}×`]);
    render(formulaTable("Speedup by τ", ["τ", "S"], cells), this.table);
  }
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
