// The formula card: what a chain's speedup would be at another acceptance, length or draft cost. Modelled, and it says
// so; the measured point of this run is on the same axes. Trees have a model of their own (formula-tree.js).

import { h } from "../base/dom.js";
import { isChain } from "../base/numbers.js";
import { ChainFormula } from "./formula-chain.js";
import { TreeFormula } from "./formula-tree.js";

export class FormulaCard {
  constructor() {
    this.faces = { chain: new ChainFormula(), tree: new TreeFormula() };
    this.controls = h("div.formula-face");
    this.shown = h("div.formula-side");
    this.root = h(
      "div.formula",
      h("div.formula-side", h("header.card-head", h("h4", "Speedup model")), this.controls),
      this.shown,
    );
  }

  /** New measurements put the sliders on them, unless a reader has moved one. */
  paint(costs, lane) {
    const fresh = JSON.stringify(costs);
    if (fresh === this.stamp) return;
    this.stamp = fresh;
    this.face = this.faces[isChain(lane) ? "chain" : "tree"];
    this.controls.replaceChildren(...this.face.controls);
    this.shown.replaceChildren(...this.face.shown);
    this.face.paint(costs, lane);
  }
}
