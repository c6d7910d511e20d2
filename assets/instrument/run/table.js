// The strip as a table: every round that has ended by now, of every lane; any column sorts. Made only while it is open.

import { h } from "../base/dom.js";
import { CUT_WORDS } from "../base/fates.js";
import { formatMs, visible } from "../base/format.js";
import { draftLane, isInside, isServer, ofServers, roundsAt } from "../base/store.js";
import { choice, smallButton } from "../base/templates.js";
import { saveFile } from "../draw/pictures.js";
import { SortedTable, tableRow } from "../draw/tables.js";
import { html, keyed, nothing, render } from "../vendor/lit-html.js";
import { laneTitle } from "./titles.js";

const HEAD = ["lane", "round", "ended at", "took", "read at once", "drafted", "accepted", "target's token", "tokens"];

const ALL = ""; // every lane

export class RoundTable {
  constructor(select) {
    this.select = select;
    const heads = HEAD.map((words, i) => [i, words]);
    this.table = new SortedTable(
      "Rounds",
      heads,
      () => false,
      () => this.draw(),
    );
    this.root = h("details", { on: { toggle: () => this.paint(...this.last) } });
    this.last = [null, 0];
    this.draw();
  }

  paint(store, now) {
    this.last = [store, now];
    if (!this.root.open || !store) return;
    const lanes = store.lanes.filter(({ name }) => [name, ALL].includes(this.chosen));
    const stamp = `${store.run}/${this.chosen}/${store.lanes.map((lane) => roundsAt(lane, now)).join()}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.rows = lanes.flatMap((lane) =>
      lane.rounds.slice(0, roundsAt(lane, now)).map((round) => ({ lane, round, cells: cellsOf(lane, round) })),
    );
    this.draw();
  }

  /** The name of the lane whose rounds are listed, or all: what drafts, unless the reader says otherwise. */
  get chosen() {
    const [store] = this.last;
    const names = store ? store.lanes.map(({ name }) => name) : [];
    return [this.only, store && draftLane(store)?.name].find((name) => name === ALL || names.includes(name)) ?? ALL;
  }

  choose(name) {
    this.only = name;
    this.paint(...this.last);
  }

  draw() {
    const [store] = this.last;
    const lanes = store ? store.lanes.map((lane) => [lane.name, laneTitle(lane)]) : [];
    const rows = (by, down) => this.sorted(by, down).map((row) => this.row(row));
    const save = () => saveFile(new Blob([this.csv()], { type: "text/csv" }), "draftscope-rounds.csv");
    const view = html`
      <summary>The rounds as a table</summary>
      ${
        this.rows
          ? html`<p class="note">${noteOf(store)}</p>
              ${choice("Lanes in the table", [[ALL, "all lanes"], ...lanes], this.chosen, (name) => this.choose(name))}
              ${this.table.template(rows)}`
          : nothing
      }
      ${smallButton("Save as CSV", save)}
    `;
    render(view, this.root);
  }

  sorted(by, down) {
    const way = down ? -1 : 1;
    return by === null ? this.rows : this.rows.toSorted((a, b) => way * order(a.cells[by], b.cells[by]));
  }

  /** Every row that is listed; times in milliseconds. */
  csv() {
    const quoted = (cell) => `"${String(cell).replaceAll('"', '""')}"`;
    return [HEAD, ...this.rows.map(({ cells }) => cells)].map((cells) => cells.map(quoted).join()).join("\n");
  }

  row({ lane, round, cells }) {
    const [title, number, ended, took, ...rest] = cells;
    const go = () => this.select(lane, round.index);
    const label = `Round ${number} of ${title}`;
    const open = html`<button class="link" type="button" aria-label=${label} @click=${go}>${number}</button>`;
    return keyed(label, tableRow([title, open, formatMs(ended), formatMs(took), ...rest], 1));
  }
}

/** What a bar of the strip is, and what its clock counts. */
function noteOf(store) {
  const inside = store.lanes.some(isInside);
  if (ofServers(store))
    return `one bar per burst, as high as its tokens${inside ? ", or per round that a server recorded" : ""}; each lane's clock starts when its request was sent`;
  const clock = inside ? "the clock is the server's" : "each lane's clock counts only its own work";
  const fork = store.lanes.some((lane) => lane.start?.fork) ? "; a fork's clock starts at 0" : "";
  return `one bar per round; the outline shows what was drafted but not accepted; ${clock}${fork}`;
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
