// Why this fast: the run's figures, its whole time to scale, the formula's prediction beside what was measured, jitter.

(function (D) {
  "use strict";
  const { h } = D;

  D.WhyView = class WhyView {
    constructor() {
      this.figures = new D.Figures();
      this.totals = h("div", { class: "scale-body" });
      this.predicted = h("div", { class: "block" });
      this.jitter = h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Jitter" });
      this.formula = new D.FormulaCard();
      this.root = h("div", { class: "sheet" }, this.figures.root,
        h("h4", { text: "The whole run to scale" }), this.totals, this.predicted,
        h("h4", { text: "How evenly tokens came" }), this.jitter, this.formula.root);
    }

    paint({ store, now, whole, soloState }) {
      this.figures.paint(D.figures(store, now, soloState));
      const stamp = `${store.run}/${store.lanes.map((lane) => D.roundsAt(lane, now)).join()}`;
      if (stamp === this.stamp) return;
      this.stamp = stamp;
      this.totals.replaceChildren(...totals(store, now));
      const costs = whole ? D.costs(D.draftLane(store), D.plainLane(store)) : null;
      this.predicted.replaceChildren(...prediction(costs, whole, store));
      this.jitter.replaceChildren(jitterTable(store, whole));
      this.formula.root.hidden = !costs;
      if (costs) this.formula.paint(costs, D.draftLane(store));
    }
  };

  const KINDS = [["prefill", "prompt", "read"], ["draft", "draft forwards", "draft"], ["verify", "target forwards", "verify"], ["other", "everything else", "other"]];

  function totals(store, now) {
    const lanes = store.lanes.map((lane) => ({ lane, rounds: D.roundsAt(lane, now) })).map((at) => ({ ...at, spent: D.spent(at.lane, at.rounds) }));
    const whole = ({ spent }) => KINDS.reduce((sum, [kind]) => sum + spent[kind], 0);
    const ruler = Math.max(1e-9, ...lanes.map(whole));
    return lanes.map((at) => {
      const tokens = D.stateAt(at.lane, now).tokens;
      const words = `${D.time(whole(at))} for ${D.count(tokens, "token")}: ${KINDS.filter(([kind]) => at.spent[kind] > 0).map(([kind, name]) => `${name} ${D.time(at.spent[kind])}`).join(" + ")}`;
      const bars = KINDS.filter(([kind]) => at.spent[kind] > 0).map(([kind, name, look]) => h("i", { class: look, title: `${name}: ${D.time(at.spent[kind])}`, style: { "flex-grow": String(at.spent[kind] / whole(at)) } }));
      return h("div", { class: "scale-row" }, h("span", { class: "scale-name", text: D.laneTitle(at.lane) }),
        h("div", { class: "scale-track" }, h("div", { class: "scale-bar", role: "img", "aria-label": words, style: { width: `${(100 * whole(at)) / ruler}%` } }, bars)), h("span", { class: "scale-words", text: words }));
    });
  }

  function prediction(costs, whole, store) {
    if (!D.draftLane(store) || !D.plainLane(store)) return [];
    if (!costs) return [h("p", { class: "sum", text: whole ? "Too few rounds to predict anything from." : "Predicted against measured: when the whole run is shown." })];
    const { tau, per, c, v, o, predicted, measured, one } = costs;
    const forwards = D.isChain(D.draftLane(store)) ? "γ" : "L";
    return [h("h4", { text: "Predicted against measured" }),
      h("p", { class: "equation" }, `S = τ / (${forwards}c + v + o) = `, h("b", { text: D.figure(tau) }), ` / (${D.figure(per)} × ${D.prob(c)} + ${D.figure(v)} + ${D.prob(o)}) = `, h("b", { text: `${D.figure(predicted)}×` }), " predicted, ", h("b", { text: `${D.figure(measured)}×` }), " measured"),
      h("p", { class: "sum", text: `c, v and o are medians of this run's own stages, divided by a plain round (median ${D.time(one)}); ${forwards} counts draft forwards a round. Measured is tokens a millisecond of both lanes, the prompt's reading left out: where it lies apart from the prediction, rounds were uneven.` })];
  }

  function jitterTable(store, whole) {
    const head = ["lane", "TTFT", "ITL p50", "p95", "p99", "ICL p50", "p95", "p99"];
    const rows = store.lanes.map((lane) => ({ lane, at: D.jitter(lane) })).filter(({ lane }) => lane.rounds.length > 1);
    if (!whole || !rows.length) return h("p", { class: "sum", text: "Gaps are counted when the whole run is shown." });
    return h("div", {}, h("table", {}, h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col", text })))),
      h("tbody", {}, rows.map(({ lane, at }) => h("tr", {}, h("th", { scope: "row", text: D.laneTitle(lane) }),
        [at.ttft, at.itl.p50, at.itl.p95, at.itl.p99, at.icl.p50, at.icl.p95, at.icl.p99].map((ms) => h("td", { text: D.time(ms) })))))),
      h("p", { class: "sum", text: `TTFT: the prompt and the first round. ITL: gaps between tokens, 0 within a round (${rows.map(({ at }) => at.itl.n).join(" and ")} gaps). ICL: gaps between rounds, where the jitter is (${rows.map(({ at }) => at.icl.n).join(" and ")}). On each lane's own clock, which counts only its own work.` }));
  }
})(window.Draftscope);
