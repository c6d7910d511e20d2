// Tables of plain text.

import { html, nothing } from "../vendor/lit-html.js";

/** `rows` of cells, texts or templates, of which the one at `first` heads its row, or made by `tableRow`; `above` is a
 *  row above the heads. */
export const table = (heads, rows, first = 0, above = nothing) =>
  assembled(
    heads.map((words) => html`<th scope="col">${words}</th>`),
    rows.map((row) => (Array.isArray(row) ? tableRow(row, first) : row)),
    above,
  );

const assembled = (heads, rows, above = nothing) => html`
  <table>
    <thead>
      ${above}
      <tr>
        ${heads}
      </tr>
    </thead>
    <tbody>
      ${rows}
    </tbody>
  </table>
`;

export const tableRow = (cells, first, look) => html`
  <tr class=${look || nothing}>
    ${cells.map((cell, i) => (i === first ? html`<th scope="row">${cell}</th>` : html`<td>${cell}</td>`))}
  </tr>
`;

/** What scrolls by itself where it is too wide or too long for its place. */
export const scrollable = (label, content) =>
  html`<div class="table" tabindex="0" role="group" aria-label=${label}>${content}</div>`;

/** The same, closed until it is opened. */
export const foldedTable = (caption, heads, rows, label = caption) =>
  html`<details>
    <summary>${caption}</summary>
    ${scrollable(label, table(heads, rows))}
  </details>`;

/** A table that each of its heads sorts: `heads` are [column, words], `falls(column)` says whether the largest comes
 *  first, `repaint` is called when another order is wanted. */
export class SortedTable {
  constructor(label, heads, falls, repaint, { by = null, down = false } = {}) {
    Object.assign(this, { label, heads, falls, repaint, by, down });
  }

  /** `rows(by, down)` gives the rows in that order, each keyed: what has the focus goes on meaning the same. */
  template(rows) {
    const arrow = this.down ? "descending" : "ascending";
    const heads = this.heads.map(
      ([by, words]) =>
        html`<th scope="col" aria-sort=${this.by === by ? arrow : "none"}>
          <button class="link" type="button" @click=${() => this.sort(by)}>${words}</button>
        </th>`,
    );
    return scrollable(this.label, assembled(heads, rows(this.by, this.down)));
  }

  sort(by) {
    this.down = this.by === by ? !this.down : this.falls(by);
    this.by = by;
    this.repaint();
  }
}
