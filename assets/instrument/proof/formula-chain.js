// The formula of a chain: what another acceptance, length or draft cost would come to.
//
// S = tau / (gamma c + v + o), tau = (1 - alpha^(gamma + 1)) / (1 - alpha).

import { h, s } from "../base/dom.js";
import { formatFigure, formatProb } from "../base/format.js";
import { alphaOf, breakEven, chainSpeed, chainTau } from "../base/numbers.js";
import { formulaReset, formulaTable, measuredPoint, slider, speedAxes } from "./formula-parts.js";

const MOST = 16; // longest chain drawn

export class ChainFormula {
  constructor() {
    this.sliders = {
      alpha: slider("α, acceptance per draft token", 0, 0.99, "any", () => this.draw()),
      gamma: slider("γ, drafted per round", 1, MOST, 1, () => this.draw()),
      c: slider("c, draft forward / plain round", 0, 1, "any", () => this.draw()),
    };
    this.words = h("p", { class: "sum" });
    this.picture = h("div", { class: "curve" });
    this.table = formulaTable("Speedup by γ");
    const note = h("p", {
      class: "note",
      text: "τ = (1 − α^(γ+1)) / (1 − α),  S = τ / (γc + v + o). v is interpolated between one row and this run's width; o is this run's.",
    });
    this.asked = [
      note,
      ...Object.values(this.sliders).map((x) => x.root),
      formulaReset(() => this.measured()),
      this.words,
    ];
    this.shown = [this.picture, this.table];
  }

  paint(costs) {
    this.costs = costs;
    this.measured();
  }

  measured() {
    const { costs } = this;
    const gamma = Math.max(1, Math.min(MOST, Math.round(costs.drafted)));
    this.sliders.alpha.set(alphaOf(costs.tau, Math.max(costs.drafted, 0.01)));
    this.sliders.gamma.set(gamma);
    this.sliders.c.set(costs.drafted ? (costs.c * costs.per) / costs.drafted : 0);
    this.draw();
  }

  draw() {
    const [alpha, gamma, c] = ["alpha", "gamma", "c"].map((name) => this.sliders[name].value());
    const speed = (g) => chainSpeed(alpha, g, c, this.costs);
    const curve = Array.from({ length: MOST }, (_, i) => ({
      gamma: i + 1,
      tau: chainTau(alpha, i + 1),
      speed: speed(i + 1),
    }));
    const best = curve.reduce((a, b) => (b.speed > a.speed ? b : a));
    const even = breakEven(gamma, c, this.costs);
    this.words.replaceChildren(
      h("b", { text: `Modelled: τ ${formatFigure(chainTau(alpha, gamma))}, S ${formatFigure(speed(gamma))}` }),
      ` · best γ ${best.speed > 1 ? `${best.gamma}, S ${formatFigure(best.speed)}` : "0: plain decoding"} · at γ ${gamma} it is faster than plain ${even >= 0.9999 ? "at no α" : `above α ${formatProb(even)}`}.`,
    );
    this.picture.replaceChildren(chart(curve, gamma, best, this.costs));
    this.table.lastChild.replaceChildren(
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["γ", "τ, modelled", "S, modelled"].map((text) => h("th", { scope: "col", text })),
          ),
        ),
        h(
          "tbody",
          {},
          curve.map((at) =>
            h(
              "tr",
              {},
              h("th", { scope: "row", text: String(at.gamma) }),
              h("td", { text: formatFigure(at.tau) }),
              h("td", { text: formatFigure(at.speed) }),
            ),
          ),
        ),
      ),
    );
  }
}

function chart(curve, gamma, best, costs) {
  const most = Math.max(1.2, costs.measured, ...curve.map((at) => at.speed)) * 1.08;
  const axes = speedAxes(most, MOST, [1, 4, 8, 12, 16], "γ, drafted per round");
  const { x, y } = axes;
  const at = curve[gamma - 1];
  return axes.svg(
    `Modelled speedup by γ, best ${formatFigure(best.speed)} at γ ${best.gamma}; measured ${formatFigure(costs.measured)} at ${formatFigure(costs.drafted)} drafted per round`,
    s("polyline", { class: "model", points: curve.map((p) => `${x(p.gamma)},${y(p.speed)}`).join(" ") }),
    curve.map((p) => s("circle", { class: "model", cx: x(p.gamma), cy: y(p.speed), r: 2 })),
    s("circle", { class: "chosen", cx: x(at.gamma), cy: y(at.speed), r: 5.5 }),
    measuredPoint(axes, costs.drafted, costs.measured, at.speed),
  );
}
