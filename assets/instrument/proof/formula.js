// The formula card: what a run's speedup would be at another acceptance, length or draft cost. Modelled, and it says so;
// the measured point of this run is on the same axes. Chains and trees have a model each (formula-chain.js,
// formula-tree.js): {notes, sliders, measured, modelled(set)}.

import { h } from "../base/dom.js";
import { formatFigure, formatProb } from "../base/format.js";
import { isChain } from "../base/numbers.js";
import { smallButton } from "../base/templates.js";
import { foldedTable } from "../draw/tables.js";
import { html, nothing, render } from "../vendor/lit-html.js";
import { chainModel } from "./formula-chain.js";
import { treeModel } from "./formula-tree.js";

export class FormulaCard {
  constructor() {
    this.controls = h("div.formula-face");
    this.shown = h("div.formula-side");
    this.root = h(
      "div.formula",
      h("div.formula-side", h("header.card-head", h("h4", "Speedup model")), this.controls),
      this.shown,
    );
  }

  /** New measurements put the sliders on them. */
  paint(costs, lane) {
    const known = JSON.stringify(costs);
    if (known === this.known) return;
    this.known = known;
    this.model = isChain(lane) ? chainModel(costs) : treeModel(costs, lane);
    this.put(this.model.measured);
  }

  put(set) {
    const { notes, sliders, measured, modelled } = this.model;
    const { words, picture, rows } = modelled(set);
    const move = (change) => this.put({ ...set, ...change });
    const controls = html`
      ${notes} ${sliders.map((one) => slider(one, set[one.name], move))}
      ${smallButton("As measured", () => this.put(measured))}
      <p class="sum">${words}</p>
    `;
    render(controls, this.controls);
    render(
      html`<div class="curve">${picture}</div>
        ${rows ? foldedTable("The curve as a table", rows.heads, rows.cells, rows.label) : nothing}`,
      this.shown,
    );
  }
}

function slider({ name, label, least = 0, most = 1, step = "any" }, value, move) {
  const words = step === 1 ? value : most > 1 ? formatFigure(value) : formatProb(value);
  const input = ({ target }) => move({ [name]: Number(target.value) });
  return html`<label class="slider">
    <span>${label}</span><output>${words}</output>
    <input type="range" min=${least} max=${most} step=${step} aria-label=${label} .value=${value} @input=${input} />
  </label>`;
}
