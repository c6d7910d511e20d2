// Laws as bars, one row a token: p and q overlaid, or side by side.
//
// What both agree on is solid, the draft's excess hatched one way (it can be rejected), the target's the other (the
// residual).

import { h } from "../base/dom.js";
import { FATES } from "../base/fates.js";
import { formatProb, shorten, visible } from "../base/format.js";
import { explained } from "../base/symbols.js";
import { drawn } from "../base/templates.js";

const ROWS = 6;

/** The rows to show: the likeliest, the children's, the outcome's; then everything else as one row. */
function rowsOf(probs, wanted) {
  const shown = new Set(probs.ids.slice(0, ROWS));
  for (const id of wanted) if (probs.ids.includes(id)) shown.add(id);
  const rows = [];
  const rest = { p: probs.rest_p, q: probs.rest_q ?? null, min: probs.rest_min ?? null, count: 0 };
  probs.ids.forEach((id, i) => {
    const p = probs.p[i];
    const q = probs.q ? probs.q[i] : null;
    if (shown.has(id)) rows.push({ id, raw: probs.raw[i], p, q, min: q === null ? p : Math.min(p, q) });
    else {
      rest.p += p;
      if (q !== null) {
        rest.q += q;
        rest.min += Math.min(p, q);
      }
      rest.count += 1;
    }
  });
  return { rows, rest };
}

/** Sum of min(p, q): the probability that a token sampled from q is accepted. Null without q. */
export function overlap(probs) {
  if (!probs.q) return null;
  return probs.p.reduce((sum, p, i) => sum + Math.min(p, probs.q[i]), probs.rest_min || 0);
}

/** Bars of p and q overlaid, or of p alone. `marks`: token id -> [class, words]. */
export function probabilityBars(probs, marks, overlay, letter = "p") {
  const { rows, rest } = rowsOf(probs, marks.keys());
  const both = overlay && probs.q;
  const all = [...rows, { ...rest, id: null, min: rest.min === null ? rest.p : rest.min }];
  // one ruler for all tokens. The two hatched areas are compared, so that "all others" shares it where they are drawn;
  // elsewhere that row has its own where it would reach beyond, and says so
  const reach = (r) => (both ? r.p + r.q - r.min : Math.max(r.p, r.q || 0));
  const most = Math.max(1e-9, ...(both ? all : rows).map(reach));
  const table = h("div.bars", { role: "table", "aria-label": "Probabilities" });
  for (const row of all) {
    if (row.id === null && row.p < 5e-4 && (row.q || 0) < 5e-4) continue;
    const mark = marks.get(row.id);
    const beyond = reach(row) > most * 1.0001;
    const ruler = beyond ? reach(row) : most;
    const pct = (x) => `${(100 * x) / ruler}%`;
    const bar = h("div", { class: beyond ? "bar beyond" : "bar", "aria-hidden": "true" });
    if (both) {
      bar.append(h("i.min", { style: { width: pct(row.min) } }));
      // "all others" may hold excesses of both kinds at once; single tokens hold one
      let at = row.min;
      for (const [kind, size] of [
        ["over-q", row.q - row.min],
        ["over-p", row.p - row.min],
      ]) {
        if (size > ruler * 1e-4) bar.append(h("i", { class: kind, style: { left: pct(at), width: pct(size) } }));
        if (size > 0) at += row.id === null ? size : 0;
      }
    } else {
      bar.append(h("i", { class: letter === "q" ? "draft" : "ink", style: { width: pct(row.p) } }));
      if (probs.q) bar.append(h("i.thin-q", { style: { width: pct(row.q) } }));
    }
    const figures = probs.q ? `p ${formatProb(row.p)}  q ${formatProb(row.q)}` : `${letter} ${formatProb(row.p)}`;
    table.append(
      h(
        "div",
        { class: `bar-row${mark ? " marked" : ""}`, role: "row" },
        h(
          "span",
          {
            class: `mark ${mark ? mark[0] : ""}`,
            role: "cell",
            title: mark ? mark[1] : null,
            "aria-label": mark ? mark[1] : null,
          },
          mark ? FATES[mark[0]].glyph || "◦" : "",
        ),
        h(
          "span.token",
          { role: "rowheader", title: row.id === null ? null : visible(row.raw) },
          row.id === null ? (beyond ? "others ∗" : "all others") : shorten(visible(row.raw), 12),
        ),
        bar,
        h("span.pq", { role: "cell" }, figures),
      ),
    );
  }
  table.dataset.ownScale = String(Boolean(table.querySelector(".beyond")));
  return table;
}

function key(overlay, twin, table) {
  const ownScale = table.dataset.ownScale === "true" ? h("span.key", "∗ own scale") : null;
  const entry = (kind, words) => h("span.key", h("i", { class: `swatch ${kind}` }), drawn(explained(words)));
  return overlay
    ? h(
        "p.legend",
        entry("min", "both, min(p, q)"),
        entry("over-q", "q − p, overconfident"),
        entry("over-p", "p − q, residual"),
        ownScale,
      )
    : h("p.legend", entry("ink", "target p"), twin ? entry("thin-q", "draft q") : null, ownScale);
}

/** Bars and what they mean. */
export function probabilityPicture(probs, marks, overlay) {
  const table = probabilityBars(probs, marks, overlay);
  return [table, key(overlay && probs.q, Boolean(probs.q), table)];
}

export function overlapLine(probs, first) {
  const alpha = overlap(probs);
  if (alpha === null) return null;
  return h(
    "p.sum",
    h("b", drawn(explained(`α = Σ min(p, q) = ${formatProb(alpha)}`))),
    ` · each hatched area sums to ${formatProb(1 - alpha)}${first ? "" : ", after earlier rejections"}`,
  );
}
