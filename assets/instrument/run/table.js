// The strip as a table: every round that has ended by now, of every lane. Made only while it is open.

(function (D) {
  "use strict";
  const { h } = D;
  const HEAD = ["lane", "round", "ended at", "took", "rows", "drafted", "accepted", "own token", "tokens"];

  D.RoundTable = class RoundTable {
    constructor(select) {
      this.select = select;
      this.body = h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Rounds" });
      this.root = h("details", { on: { toggle: () => this.paint(...this.last) } }, h("summary", { text: "The rounds as a table" }), this.body);
      this.last = [null, 0];
    }

    paint(store, now) {
      this.last = [store, now];
      if (!this.root.open || !store) return;
      const stamp = `${store.run}/${store.lanes.map((lane) => D.roundsAt(lane, now)).join()}`;
      if (stamp === this.stamp) return;
      this.stamp = stamp;
      this.body.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, HEAD.map((text) => h("th", { scope: "col", text })))),
        h("tbody", {}, store.lanes.flatMap((lane) => lane.rounds.slice(0, D.roundsAt(lane, now)).map((round) => this.row(lane, round))))));
    }

    row(lane, round) {
      const own = round.emitted.length > round.accepted ? `${round.last.kind} ${D.visible(round.last.raw)}` : D.cutWords[round.cut] || "";
      const cells = [D.time(round.end), D.time(round.end - round.start), round.width, round.drafted, round.accepted, own, round.emitted.length];
      return h("tr", {}, h("td", { text: D.laneTitle(lane) }),
        h("th", { scope: "row" }, h("button", { type: "button", class: "link", text: String(round.index + 1), "aria-label": `Round ${round.index + 1} of ${D.laneTitle(lane)}`, on: { click: () => this.select(lane, round.index) } })),
        cells.map((cell) => h("td", { text: String(cell) })));
    }
  };
})(window.Draftscope);
