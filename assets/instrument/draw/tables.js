// Tables of plain text.

import { h } from "../base/dom.js";

/** `rows` of cells, texts or elements; each row's first cell heads it. */
export function table(head, rows) {
  const heading = head.map((text) => h("th", { scope: "col", text }));
  return h("table", {}, h("thead", {}, h("tr", {}, heading)), h("tbody", {}, rows.map(row)));
}

const row = ([first, ...cells]) =>
  h(
    "tr",
    {},
    h("th", { scope: "row" }, first),
    cells.map((cell) => h("td", {}, cell)),
  );

/** What scrolls by itself where it is too wide or too long for its place. */
export const scrollable = (label, ...children) =>
  h("div", { class: "table", tabindex: "0", role: "group", "aria-label": label }, ...children);

/** The same, closed until it is opened. */
export const foldedTable = (caption, head, rows) =>
  h("details", {}, h("summary", { text: caption }), scrollable(caption, table(head, rows)));
