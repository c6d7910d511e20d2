// The formula of a chain: what another acceptance, length or draft cost would come to.
//
// S = tau / (gamma c + v + o), tau = (1 - alpha^(gamma + 1)) / (1 - alpha).

import { h, s, setText } from "../base/dom.js";
import { counted, formatFigure, formatProb } from "../base/format.js";
import { alphaOf, breakEven, chainSpeed, chainTau, longestChain, verifyAt } from "../base/numbers.js";
import { polyline } from "../draw/chart.js";
import { nothing, render } from "../vendor/lit-html.js";
import { formulaReset, formulaTable, measuredPoint, slider, speedAxes } from "./formula-parts.js";

const MOST = 16; // longest chain drawn

export class ChainFormula {
  constructor() {
    this.sliders = {
      alpha: slider("α, acceptance per draft token", 0, 0.99, "any", () => this.draw()),
      gamma: slider("γ, drafted per round", 1, MOST, 1, () => this.draw()),
      c: slider("c, draft step / plain round", 0, 1, "any", () => this.draw()),
    };
    this.words = h("p.sum");
    this.picture = h("div.curve");
    this.table = h("div");
    const note = h(
      "p.note",
      "τ = (1 − α^(γ+1)) / (1 − α),  S = τ / (γc + v + o). v by tokens read at once was measured on this machine, and the curve ends where it was; o is this run's.",
    );
    this.known = h("p.note");
    this.controls = [
      note,
      this.known,
      ...Object.values(this.sliders).map((x) => x.root),
      formulaReset(() => this.measured()),
      this.words,
    ];
    this.shown = [this.picture, this.table];
  }

  paint(costs) {
    this.costs = costs;
    this.longest = Math.max(1, Math.min(MOST, longestChain(costs)));
    this.sliders.gamma.upTo(this.longest);
    setText(this.known, knownWords(costs));
    this.measured();
  }

  measured() {
    const { costs } = this;
    const gamma = Math.max(1, Math.min(this.longest, Math.round(costs.drafted)));
    this.sliders.alpha.set(alphaOf(costs.tau, Math.max(costs.drafted, 0.01)));
    this.sliders.gamma.set(gamma);
    this.sliders.c.setWidening(costs.drafted ? (costs.c * costs.per) / costs.drafted : 0);
    this.draw();
  }

  /** No chain was measured: there is nothing to draw. */
  nothing() {
    this.words.textContent = "No round of this run had a draft, so there is no cost of verifying one.";
    this.picture.replaceChildren();
    render(nothing, this.table);
  }

  draw() {
    const [alpha, gamma, c] = ["alpha", "gamma", "c"].map((name) => this.sliders[name].value());
    const speed = (g) => chainSpeed(alpha, g, c, this.costs);
    const curve = Array.from({ length: this.longest }, (_, i) => ({
      x: i + 1,
      y: speed(i + 1),
      tau: chainTau(alpha, i + 1),
    })).filter((at) => Number.isFinite(at.y));
    if (!curve.length) return this.nothing();
    const best = curve.reduce((a, b) => (b.y > a.y ? b : a));
    const even = breakEven(gamma, c, this.costs);
    this.words.replaceChildren(
      h("b", `Modelled: τ ${formatFigure(chainTau(alpha, gamma))}, S ${formatFigure(speed(gamma))}`),
      ` · best γ ${best.y > 1 ? `${best.x}${best.x === this.longest && best.x > 1 ? ", the longest that was measured" : ""}, S ${formatFigure(best.y)}` : "0: plain decoding"} · at γ ${gamma} it is faster than plain ${even >= 0.9999 ? "at no α" : `above α ${formatProb(even)}`}.${noiseWords(gamma, this.costs)}`,
    );
    this.picture.replaceChildren(chart(curve, gamma, best, this.costs));
    const row = ({ x, tau, y }) => [x, formatFigure(tau), formatFigure(y)];
    render(formulaTable("Speedup by γ", ["γ", "τ, modelled", "S, modelled"], curve.map(row)), this.table);
  }
}

/** Where v by rows comes from, and how far it goes. */
function knownWords(costs) {
  const { widths } = costs.curve;
  const far = widths[widths.length - 1];
  const from = costs.curve.kind
    ? `v was measured up to ${counted(far, "token")} at once.`
    : `This run measured v at ${widths.join(" and ")} ${far === 1 ? "token" : "tokens at once"} only.`;
  return from + (costs.noisy ? " Reading several came out faster than reading one: noise." : "");
}

/** Where the measured effect of more rows is smaller than its noise. */
function noiseWords(gamma, costs) {
  const { v, noise } = verifyAt(gamma + 1, costs.curve);
  return v - 1 < 2 * noise ? ` v of ${gamma + 1} tokens cannot be told from v of one: the noise is larger.` : "";
}

function chart(curve, gamma, best, costs) {
  const most = Math.max(1.2, costs.measured, ...curve.map((at) => at.y)) * 1.08;
  const axes = speedAxes(most, MOST, [1, 4, 8, 12, 16], "γ, drafted per round");
  const { x, y } = axes;
  const at = curve[gamma - 1];
  return axes.svg(
    `Modelled speedup by γ, best ${formatFigure(best.y)} at γ ${best.x}; measured ${formatFigure(costs.measured)} at ${formatFigure(costs.drafted)} drafted per round`,
    polyline(curve, x, y, { class: "model" }),
    curve.map((p) => s("circle.model", { cx: x(p.x), cy: y(p.y), r: 2 })),
    s("circle.chosen", { cx: x(at.x), cy: y(at.y), r: 5.5 }),
    measuredPoint(axes, costs.drafted, costs.measured, at.y),
  );
}
