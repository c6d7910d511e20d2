// The formula card: what a chain's speedup would be at another acceptance, length or draft cost. Modelled, and it says so;
// the measured point of this run stands on the same axes. A tree has a face of its own (formulatree.js).

(function (D) {
  "use strict";
  const { h, s } = D;
  const MOST = 16; // longest chain drawn

  D.FormulaCard = class FormulaCard {
    constructor() {
      this.faces = { chain: new ChainFormula(), tree: new D.TreeFormula() };
      this.asked = h("div", { class: "formula-face" });
      this.shown = h("div", { class: "formula-side" });
      this.root = h("div", { class: "formula" },
        h("div", { class: "formula-side" }, h("header", { class: "card-head" }, h("h4", { text: "The formula, modelled" })), this.asked), this.shown);
    }

    /** New measurements put the sliders on them, unless a reader has moved one. */
    paint(costs, lane) {
      const fresh = JSON.stringify(costs);
      if (fresh === this.stamp) return;
      this.stamp = fresh;
      this.face = this.faces[D.isChain(lane) ? "chain" : "tree"];
      this.asked.replaceChildren(...this.face.asked);
      this.shown.replaceChildren(...this.face.shown);
      this.face.paint(costs, lane);
    }
  };

  D.formulaReset = (act) => h("button", { class: "small", type: "button", text: "As measured", on: { click: act } });

  D.formulaTable = (label) => h("details", {}, h("summary", { text: "The curve as a table" }), h("div", { class: "table", tabindex: "0", role: "group", "aria-label": label }));

  class ChainFormula {
    constructor() {
      this.sliders = {
        alpha: D.slider("α, a draft stands with", 0, 0.99, "any", () => this.draw()),
        gamma: D.slider("γ, drafted a round", 1, MOST, 1, () => this.draw()),
        c: D.slider("c, a draft forward in plain rounds", 0, 1, "any", () => this.draw()),
      };
      this.words = h("p", { class: "sum" });
      this.picture = h("div", { class: "curve" });
      this.table = D.formulaTable("Speedup by γ");
      const note = h("p", { class: "note", text: "τ = (1 − α^(γ+1)) / (1 − α),  S = τ / (γc + v + o). v grows evenly from one row to this run's; o is this run's." });
      this.asked = [note, ...Object.values(this.sliders).map((x) => x.root), D.formulaReset(() => this.measured()), this.words];
      this.shown = [this.picture, this.table];
    }

    paint(costs) {
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
  }

  D.slider = function slider(label, min, max, step, changed) {
    const value = h("output", {});
    const input = h("input", { type: "range", min: String(min), max: String(max), step: String(step), "aria-label": label });
    const say = () => D.setText(value, step === 1 ? input.value : Number(input.max) > 1 ? D.figure(Number(input.value)) : D.prob(Number(input.value)));
    input.addEventListener("input", () => { say(); changed(); });
    return {
      root: h("label", { class: "slider" }, h("span", { text: label }), value, input),
      value: () => Number(input.value),
      set: (x) => { input.value = String(x); say(); },
      upTo: (x) => { input.max = String(x); },
    };
  };

  const BOX = { width: 560, height: 240, left: 44, right: 14, top: 12, bottom: 44 };

  /** Axes of speed over something else up to `wide`: the scales, and what is drawn of them. `marks` are named values. */
  D.speedAxes = function speedAxes(most, wide, marks, axis) {
    const x = (value) => BOX.left + (value / wide) * (BOX.width - BOX.left - BOX.right);
    const y = (speed) => BOX.height - BOX.bottom - (speed / most) * (BOX.height - BOX.top - BOX.bottom);
    const text = (props, words) => s("text", props, words);
    const ticks = Array.from({ length: Math.floor(most) + 1 }, (_, i) => i).filter((tick) => most < 8 || tick % 2 === 0 || tick === 1);
    const drawn = [
      ...ticks.flatMap((tick) => [
        s("line", { class: tick === 1 ? "one" : "grid", x1: BOX.left, x2: BOX.width - BOX.right, y1: y(tick), y2: y(tick) }),
        text({ x: BOX.left - 8, y: y(tick) + 4, "text-anchor": "end" }, `${tick}×`)]),
      ...marks.map((mark) => text({ x: x(mark), y: BOX.height - BOX.bottom + 18, "text-anchor": "middle" }, String(mark))),
      text({ x: BOX.width - BOX.right, y: BOX.height - 3, "text-anchor": "end" }, axis)];
    const svg = (label, ...children) => s("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": label }, drawn, ...children);
    return { x, y, text, svg };
  };

  /** The measured point: a cross and its words, which stand off the modelled curve and inside the picture. */
  D.measuredPoint = function measuredPoint({ x, y, text }, at, speed, modelled) {
    const far = x(at) > BOX.width * 0.72;
    return [s("path", { class: "real", d: `M${x(at) - 6} ${y(speed) - 6}l12 12m0 -12l-12 12` }),
      text({ class: "told", x: x(at) + (far ? -10 : 10), y: y(speed) + (speed > modelled ? -8 : 18), "text-anchor": far ? "end" : "start" }, `measured ${D.figure(speed)}×`)];
  };

  function chart(curve, gamma, best, costs) {
    const most = Math.max(1.2, costs.measured, ...curve.map((at) => at.speed)) * 1.08;
    const axes = D.speedAxes(most, MOST, [1, 4, 8, 12, 16], "γ, drafted a round");
    const { x, y } = axes;
    const at = curve[gamma - 1];
    return axes.svg(`Modelled speedup by γ, best ${D.figure(best.speed)} at γ ${best.gamma}; measured ${D.figure(costs.measured)} at ${D.figure(costs.drafted)} drafted a round`,
      s("polyline", { class: "model", points: curve.map((p) => `${x(p.gamma)},${y(p.speed)}`).join(" ") }),
      curve.map((p) => s("circle", { class: "model", cx: x(p.gamma), cy: y(p.speed), r: 2 })),
      s("circle", { class: "chosen", cx: x(at.gamma), cy: y(at.speed), r: 5.5 }),
      D.measuredPoint(axes, costs.drafted, costs.measured, at.speed));
  }
})(window.Draftscope);
