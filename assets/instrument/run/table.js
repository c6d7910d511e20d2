// The strip as a table: every round that has ended by now, of every lane; any column sorts. Made only while it is open.

import { button, h } from "../base/dom.js";
import { CUT_WORDS } from "../base/fates.js";
import { formatMs, visible } from "../base/format.js";
import { isServer, roundsAt } from "../base/store.js";
import { saveFile } from "../draw/pictures.js";
import { laneTitle } from "./titles.js";

const HEAD = ["lane", "round", "ended at", "took", "read at once", "drafted", "accepted", "target's token", "tokens"];

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
    this.save = button("Save as CSV", () =>
      saveFile(new Blob([this.csv()], { type: "text/csv" }), "draftscope-rounds.csv"),
    );
    this.last = [null, 0];
    this.by = null; // the column that sorts
  }

  paint(store, now) {
    this.last = [store, now];
    if (!this.root.open || !store) return;
    const stamp = `${store.run}/${store.lanes.map((lane) => roundsAt(lane, now)).join()}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.rows = store.lanes.flatMap((lane) =>
      lane.rounds.slice(0, roundsAt(lane, now)).map((round) => ({ lane, round, cells: cellsOf(lane, round) })),
    );
    this.list();
  }

  /** The rows as they are sorted. */
  list() {
    const { by, down } = this;
    const rows =
      by === null ? this.rows : this.rows.toSorted((a, b) => (down ? -1 : 1) * order(a.cells[by], b.cells[by]));
    const heads = HEAD.map((text, i) =>
      h(
        "th",
        { scope: "col", "aria-sort": by === i ? (down ? "descending" : "ascending") : "none" },
        h("button", { type: "button", class: "link", text, on: { click: () => this.sort(i) } }),
      ),
    );
    const body = rows.map((row) => this.row(row));
    this.body.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, body)), this.save);
  }

  sort(by) {
    this.down = this.by === by && !this.down;
    this.by = by;
    this.list();
    this.body.querySelectorAll("thead button")[by].focus();
  }

  /** Every row; times in milliseconds. */
  csv() {
    const quoted = (cell) => `"${String(cell).replaceAll('"', '""')}"`;
    return [HEAD, ...this.rows.map(({ cells }) => cells)].map((cells) => cells.map(quoted).join()).join("\n");
  }

  row({ lane, round, cells }) {
    const [title, number, ...rest] = cells;
    const shown = rest.map((cell, i) => (i < 2 ? formatMs(cell) : String(cell)));
    return h(
      "tr",
      {},
      h("td", { text: title }),
      h(
        "th",
        { scope: "row" },
        h("button", {
          type: "button",
          class: "link",
          text: String(number),
          "aria-label": `Round ${number} of ${title}`,
          on: { click: () => this.select(lane, round.index) },
        }),
      ),
      shown.map((text) => h("td", { text })),
    );
  }
}

/** What a row says, by the heads; times in milliseconds. */
function cellsOf(lane, round) {
  const lastToken =
    round.emitted.length > round.accepted
      ? `${round.last.kind} ${visible(round.last.raw)}`
      : CUT_WORDS[round.cut] || "";
  const inside =
    isServer(lane) && !lane.drafted ? ["–", "–", "–", "–"] : [round.width, round.drafted, round.accepted, lastToken];
  return [laneTitle(lane), round.index + 1, round.end, round.end - round.start, ...inside, round.emitted.length];
}

const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
