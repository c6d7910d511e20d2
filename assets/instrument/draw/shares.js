// What should come beside what came, one row a name: a bar for the first, a stroke for the second.

import { h } from "../base/dom.js";
import { formatProb, shorten } from "../base/format.js";

/** `rows`: {name, wanted, got, far}; what is `far` off misses `what`. */
export function shareBars(label, rows, what) {
  const most = Math.max(...rows.flatMap(({ wanted, got }) => [wanted, got]));
  const pct = (x) => `${(100 * x) / most}%`;
  return h(
    "div",
    { class: "bars", role: "table", "aria-label": label },
    rows.map(({ name, wanted, got, far }) =>
      h(
        "div",
        { class: `bar-row share${far ? " far" : ""}`, role: "row" },
        h("span", { class: "mark", role: "cell", text: far ? "≠" : "", "aria-label": far ? `misses ${what}` : null }),
        h("span", { class: "token", role: "rowheader", text: shorten(name, 12), title: name }),
        h(
          "div",
          { class: "bar", "aria-hidden": "true" },
          h("i", { class: "wanted", style: { width: pct(wanted) } }),
          h("i", { class: "got", style: { left: pct(got) } }),
        ),
        h("span", { class: "pq", role: "cell", text: `${formatProb(wanted)} → ${formatProb(got)}` }),
      ),
    ),
  );
}
