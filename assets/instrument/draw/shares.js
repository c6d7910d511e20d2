// What should come beside what came, one row a name: a bar for the first, a stroke for the second.

import { h } from "../base/dom.js";
import { formatProb, shorten } from "../base/format.js";

/** `rows`: {name, wanted, got, far}; what is `far` off misses `what`. */
export function shareBars(label, rows, what) {
  const most = Math.max(...rows.flatMap(({ wanted, got }) => [wanted, got]));
  const pct = (x) => `${(100 * x) / most}%`;
  return h(
    "div.bars",
    { role: "table", "aria-label": label },
    rows.map(({ name, wanted, got, far }) =>
      h(
        "div",
        { class: `bar-row share${far ? " far" : ""}`, role: "row" },
        h("span.mark", { role: "cell", "aria-label": far ? `misses ${what}` : null }, far ? "≠" : ""),
        h("span.token", { role: "rowheader", title: name }, shorten(name, 12)),
        h(
          "div.bar",
          { "aria-hidden": "true" },
          h("i.wanted", { style: { width: pct(wanted) } }),
          h("i.got", { style: { left: pct(got) } }),
        ),
        h("span.pq", { role: "cell" }, `${formatProb(wanted)} → ${formatProb(got)}`),
      ),
    ),
  );
}
