// Tables of plain text.

import { button, h } from "../base/dom.js";

/** `rows` of cells, texts or elements, of which the one at `first` heads its row; a row with attributes of its own
 *  begins with them. */
export function table(head, rows, first = 0) {
  const headings = head.map((text) => h("th", { scope: "col" }, text));
  return assembled(h("tr", headings), rows, first);
}

const assembled = (heads, rows, first) =>
  h(
    "table",
    h("thead", heads),
    h(
      "tbody",
      rows.map((row) => line(row, first)),
    ),
  );

function line(row, first) {
  const [look, ...cells] = isLook(row[0]) ? row : [{}, ...row];
  return h(
    "tr",
    look,
    cells.map((cell, i) =>
      cell instanceof HTMLTableCellElement ? cell : h(i === first ? "th" : "td", i === first ? ROW : {}, cell),
    ),
  );
}

const ROW = { scope: "row" };
const isLook = (cell) => Object.getPrototypeOf(Object(cell)) === Object.prototype;

/** What scrolls by itself where it is too wide or too long for its place. */
export const scrollable = (label, ...children) =>
  h("div.table", { tabindex: "0", role: "group", "aria-label": label }, ...children);

/** The same, closed until it is opened. */
export const foldedTable = (caption, head, rows) =>
  h("details", h("summary", caption), scrollable(caption, table(head, rows)));

/** A table that each of its heads sorts: `heads` are [column, words], `rows(by, down)` gives the rows in that order,
 *  `falls(column)` says whether the largest comes first. */
export class SortedTable {
  constructor(label, heads, rows, falls, { first = 0, by = null, down = false } = {}) {
    Object.assign(this, { heads, rows, falls, first, by, down });
    this.root = scrollable(label);
  }

  paint() {
    const focused = this.root.getRootNode().activeElement?.dataset?.sort;
    const arrow = this.down ? "descending" : "ascending";
    const heads = this.heads.map(([by, words]) => {
      const sort = button(words, () => this.sort(by), { class: "link", "data-sort": by });
      return h("th", { scope: "col", "aria-sort": this.by === by ? arrow : "none" }, sort);
    });
    this.root.replaceChildren(assembled(h("tr", heads), this.rows(this.by, this.down), this.first));
    if (focused) this.root.querySelector(`[data-sort="${focused}"]`).focus();
  }

  sort(by) {
    this.down = this.by === by ? !this.down : this.falls(by);
    this.by = by;
    this.paint();
  }
}
