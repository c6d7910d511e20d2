// The strip as a table: every round that has ended by now, of every lane. Made only while it is open.

import { h } from "../base/dom.js";
import { CUT_WORDS } from "../base/fates.js";
import { formatMs, visible } from "../base/format.js";
import { isServer, roundsAt } from "../base/store.js";
import { laneTitle } from "./titles.js";

const HEAD = ["lane", "round", "ended at", "took", "rows", "drafted", "accepted", "target's token", "tokens"];

export class RoundTable {
  constructor(select) {
    this.select = select;
    this.body = h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Rounds" });
    this.root = h(
      "details",
      { on: { toggle: () => this.paint(...this.last) } },
      h("summary", { text: "The rounds as a table" }),
      this.body,
    );
    this.last = [null, 0];
  }

  paint(store, now) {
    this.last = [store, now];
    if (!this.root.open || !store) return;
    const stamp = `${store.run}/${store.lanes.map((lane) => roundsAt(lane, now)).join()}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.body.replaceChildren(
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            HEAD.map((text) => h("th", { scope: "col", text })),
          ),
        ),
        h(
          "tbody",
          {},
          store.lanes.flatMap((lane) =>
            lane.rounds.slice(0, roundsAt(lane, now)).map((round) => this.row(lane, round)),
          ),
        ),
      ),
    );
  }

  row(lane, round) {
    const own =
      round.emitted.length > round.accepted
        ? `${round.last.kind} ${visible(round.last.raw)}`
        : CUT_WORDS[round.cut] || "";
    const unknown = isServer(lane) && !lane.drafted;
    const inside = unknown ? ["–", "–", "–", "–"] : [round.width, round.drafted, round.accepted, own];
    const cells = [formatMs(round.end), formatMs(round.end - round.start), ...inside, round.emitted.length];
    return h(
      "tr",
      {},
      h("td", { text: laneTitle(lane) }),
      h(
        "th",
        { scope: "row" },
        h("button", {
          type: "button",
          class: "link",
          text: String(round.index + 1),
          "aria-label": `Round ${round.index + 1} of ${laneTitle(lane)}`,
          on: { click: () => this.select(lane, round.index) },
        }),
      ),
      cells.map((cell) => h("td", { text: String(cell) })),
    );
  }
}
