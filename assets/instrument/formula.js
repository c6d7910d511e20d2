// The formula card: what a chain's speedup would be at another acceptance, length or draft cost. Modelled, and it says so;
// the measured point of this run stands on the same axes.

(function (D) {
  "use strict";
  const { h, s } = D;
  const MOST = 16; // longest chain drawn
  const BOX = { width: 560, height: 240, left: 44, right: 14, top: 12, bottom: 44 };

  D.FormulaCard = class FormulaCard {
    constructor() {
      this.sliders = {
        alpha: slider("α, a draft stands with", 0, 0.99, 0.01, () => this.draw()),
        gamma: slider("γ, drafted a round", 1, MOST, 1, () => this.draw()),
        c: slider("c, a draft forward in plain rounds", 0, 1, 0.005, () => this.draw()),
      };
      this.reset = h("button", { class: "small", type: "button", text: "As measured", on: { click: () => this.measured() } });
      this.words = h("p", { class: "sum" });
      this.picture = h("div", { class: "curve" });
      this.table = h("details", {}, h("summary", { text: "The curve as a table" }), h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Speedup by γ" }));
      this.root = h("div", { class: "formula" },
        h("div", { class: "formula-side" }, h("header", { class: "card-head" }, h("h4", { text: "The formula, modelled" })),
          h("p", { class: "note", text: "τ = (1 − α^(γ+1)) / (1 − α),  S = τ / (γc + v + o). v grows evenly from one row to this run's; o is this run's." }),
          ...Object.values(this.sliders).map((x) => x.root), this.reset, this.words),
        h("div", { class: "formula-side" }, this.picture, this.table));
    }

    /** New measurements put the sliders on them, unless a reader has moved one. */
    paint(costs) {
      const fresh = JSON.stringify(costs);
      if (fresh === this.stamp) return;
      this.stamp = fresh;
      this.costs = costs;
      this.measured();
    }

    measured() {
      const { costs } = this;
      const gamma = Math.max(1, Math.min(MOST, Math.round(costs.drafted)));
      this.sliders.alpha.set(D.alphaOf(costs.tau, Math.max(costs.drafted, 0.01)));
      this.sliders.gamma.set(gamma);
      this.sliders.c.set(costs.drafted ? (costs.c * costs.per) / costs.drafted : 0);
      this.draw();
    }

    draw() {
      const [alpha, gamma, c] = ["alpha", "gamma", "c"].map((name) => this.sliders[name].value());
      const speed = (g) => D.chainSpeed(alpha, g, c, this.costs);
      const curve = Array.from({ length: MOST }, (_, i) => ({ gamma: i + 1, tau: D.chainTau(alpha, i + 1), speed: speed(i + 1) }));
      const best = curve.reduce((a, b) => (b.speed > a.speed ? b : a));
      const even = D.breakEven(gamma, c, this.costs);
      this.words.replaceChildren(h("b", { text: `Modelled: τ ${D.figure(D.chainTau(alpha, gamma))}, S ${D.figure(speed(gamma))}` }),
        ` · best γ ${best.speed > 1 ? `${best.gamma}, S ${D.figure(best.speed)}` : "0: plain decoding"} · at γ ${gamma} it pays ${even >= 0.9999 ? "at no α" : `above α ${D.prob(even)}`}.`);
      this.picture.replaceChildren(chart(curve, gamma, best, this.costs));
      this.table.lastChild.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ["γ", "τ, modelled", "S, modelled"].map((text) => h("th", { scope: "col", text })))),
        h("tbody", {}, curve.map((at) => h("tr", {}, h("th", { scope: "row", text: String(at.gamma) }), h("td", { text: D.figure(at.tau) }), h("td", { text: D.figure(at.speed) }))))));
    }
  };

  function slider(label, min, max, step, changed) {
    const value = h("output", {});
    const input = h("input", { type: "range", min: String(min), max: String(max), step: String(step), "aria-label": label });
    const say = () => D.setText(value, step < 1 ? D.prob(Number(input.value)) : input.value);
    input.addEventListener("input", () => { say(); changed(); });
    return {
      root: h("label", { class: "slider" }, h("span", { text: label }), value, input),
      value: () => Number(input.value),
      set: (x) => { input.value = String(x); say(); },
    };
  }

  function chart(curve, gamma, best, costs) {
    const most = Math.max(1.2, costs.measured, ...curve.map((at) => at.speed)) * 1.08;
    const x = (g) => BOX.left + (g / MOST) * (BOX.width - BOX.left - BOX.right);
    const y = (speed) => BOX.height - BOX.bottom - (speed / most) * (BOX.height - BOX.top - BOX.bottom);
    const at = curve[gamma - 1];
    const text = (props, words) => s("text", props, words);
    return s("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": `Modelled speedup by γ, best ${D.figure(best.speed)} at γ ${best.gamma}; measured ${D.figure(costs.measured)} at ${D.figure(costs.drafted)} drafted a round` },
      [0, 1, 2, 3, 4, 5, 6].filter((tick) => tick <= most).map((tick) => [
        s("line", { class: tick === 1 ? "one" : "grid", x1: BOX.left, x2: BOX.width - BOX.right, y1: y(tick), y2: y(tick) }),
        text({ x: BOX.left - 8, y: y(tick) + 4, "text-anchor": "end" }, `${tick}×`)]).flat(),
      [1, 4, 8, 12, 16].map((g) => text({ x: x(g), y: BOX.height - BOX.bottom + 18, "text-anchor": "middle" }, String(g))),
      text({ x: BOX.width - BOX.right, y: BOX.height - 3, "text-anchor": "end" }, "γ, drafted a round"),
      s("polyline", { class: "model", points: curve.map((p) => `${x(p.gamma)},${y(p.speed)}`).join(" ") }),
      curve.map((p) => s("circle", { class: "model", cx: x(p.gamma), cy: y(p.speed), r: 2 })),
      s("circle", { class: "chosen", cx: x(at.gamma), cy: y(at.speed), r: 5.5 }),
      s("path", { class: "real", d: `M${x(costs.drafted) - 6} ${y(costs.measured) - 6}l12 12m0 -12l-12 12` }),
      text({ class: "told", x: x(costs.drafted) + 10, y: y(costs.measured) + (costs.measured > at.speed ? -8 : 18) }, `measured ${D.figure(costs.measured)}×`));
  }
})(window.Draftscope);
