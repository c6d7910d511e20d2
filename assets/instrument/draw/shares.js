// What should come beside what came, one row a name: a bar for the first, a stroke for the second.

import { formatProb, shorten } from "../base/format.js";
import { html, nothing } from "../vendor/lit-html.js";

/** `rows`: {name, wanted, got, far}; what is `far` off misses `what`. */
export function shareBars(label, rows, what) {
  const most = Math.max(...rows.flatMap(({ wanted, got }) => [wanted, got]));
  const pct = (x) => `${(100 * x) / most}%`;
  const row = ({ name, wanted, got, far }) => html`
    <div class="bar-row share ${far ? "far" : ""}" role="row">
      <span class="mark" role="cell" aria-label=${far ? `misses ${what}` : nothing}>${far ? "≠" : ""}</span>
      <span class="token" role="rowheader" title=${name}>${shorten(name, 12)}</span>
      <div class="bar" aria-hidden="true">
        <i class="wanted" style="width: ${pct(wanted)}"></i><i class="got" style="left: ${pct(got)}"></i>
      </div>
      <span class="pq" role="cell">${`${formatProb(wanted)} → ${formatProb(got)}`}</span>
    </div>
  `;
  return html`<div class="bars" role="table" aria-label=${label}>${rows.map(row)}</div>`;
}
