// Laws as bars, one row a token: p and q overlaid, or side by side.
//
// What both agree on is solid, the draft's excess hatched one way (it can be rejected), the target's the other (the
// residual).

import { FATES } from "../base/fates.js";
import { formatProb, shorten, visible } from "../base/format.js";
import { explained, explainedWords } from "../base/symbols.js";
import { html, nothing } from "../vendor/lit-html.js";

const ROWS = { fewest: 1, most: 6 };

/** The rows to show: the likeliest, the children's, the outcome's; then everything else as one row, without an id.
 *  `lines` above them take some of their room. */
function rowsOf(probs, wanted, lines) {
  const shown = new Set(probs.ids.slice(0, Math.max(ROWS.fewest, ROWS.most - 2 * Math.max(0, lines - 1))));
  for (const id of wanted) if (probs.ids.includes(id)) shown.add(id);
  const rows = [];
  const rest = { id: null, p: probs.rest_p, q: probs.rest_q ?? null, min: probs.rest_min ?? null };
  probs.ids.forEach((id, i) => {
    const p = probs.p[i];
    const q = probs.q ? probs.q[i] : null;
    if (shown.has(id)) rows.push({ id, raw: probs.raw[i], p, q, min: Math.min(p, q) });
    else {
      rest.p += p;
      if (q !== null) {
        rest.q += q;
        rest.min += Math.min(p, q);
      }
    }
  });
  return [...rows, rest];
}

/** Sum of min(p, q): the probability that a token sampled from q is accepted. Null without q. */
export function overlap(probs) {
  if (!probs.q) return null;
  return probs.p.reduce((sum, p, i) => sum + Math.min(p, probs.q[i]), probs.rest_min || 0);
}

/** The rows, and the ruler of each bar: one for all tokens. The two hatched areas are compared, so that "all others"
 *  shares it where they are drawn; elsewhere that row has its own where it would reach `beyond`, and says so. */
function ruled(probs, marks, both, lines) {
  const all = rowsOf(probs, marks.keys(), lines);
  const reach = (row) => (both ? row.p + row.q - row.min : Math.max(row.p, row.q || 0));
  const most = Math.max(1e-9, ...(both ? all : all.slice(0, -1)).map(reach));
  return all
    .filter(({ id, p, q }) => id !== null || p >= 5e-4 || q >= 5e-4)
    .map((row) => {
      const beyond = reach(row) > most * 1.0001;
      return { ...row, beyond, ruler: beyond ? reach(row) : most };
    });
}

const strip = (look, left, width) => html`<i class=${look} style="left: ${100 * left}%; width: ${100 * width}%"></i>`;

/** What both agree on, then what either has more. "All others" may hold excesses of both kinds at once; single tokens
 *  hold one. */
function overlaid({ id, p, q, min, ruler }) {
  const [common, drafts, targets] = [min, q - min, p - min].map((x) => Math.max(0, x) / ruler);
  return [
    strip("min", 0, common),
    drafts > 1e-4 ? strip("over-q", common, drafts) : nothing,
    targets > 1e-4 ? strip("over-p", common + (id === null ? drafts : 0), targets) : nothing,
  ];
}

const beside = ({ p, q, ruler }, letter) => [
  strip(letter === "q" ? "draft" : "ink", 0, p / ruler),
  q === null ? nothing : strip("thin-q", 0, q / ruler),
];

function barRow(row, [fate, words] = [], both, letter) {
  const { id, raw, p, q, beyond } = row;
  const name = id !== null ? shorten(visible(raw), 12) : beyond ? "others ∗" : "all others";
  return html`<div class="bar-row ${fate ? "marked" : ""}" role="row">
    <span class="mark ${fate ?? ""}" role="cell" title=${words ?? nothing} aria-label=${words ?? nothing}
      >${fate ? FATES[fate].glyph || "◦" : ""}</span
    >
    <span class="token" role="rowheader" title=${id === null ? nothing : visible(raw)}>${name}</span>
    <div class="bar ${beyond ? "beyond" : ""}" aria-hidden="true">${both ? overlaid(row) : beside(row, letter)}</div>
    <span class="pq" role="cell"
      >${q === null ? `${letter} ${formatProb(p)}` : `p ${formatProb(p)}  q ${formatProb(q)}`}</span
    >
  </div>`;
}

const barTable = (rows, marks, both, letter) =>
  html`<div class="bars" role="table" aria-label="Probabilities">
    ${rows.map((row) => barRow(row, marks.get(row.id), both, letter))}
  </div>`;

const key = (look, words) => html`<span class="key"><i class="swatch ${look}"></i>${explainedWords(words)}</span>`;

/** Bars of p and q and what they mean, overlaid if wanted. `marks`: token id -> [class, words]. Beneath so many `lines`
 *  they are fewer. */
export function probabilityPicture(probs, marks, overlay, lines = 0) {
  const both = overlay && probs.q;
  const rows = ruled(probs, marks, both, lines);
  const keys = both
    ? [key("min", "both, min(p, q)"), key("over-q", "q − p, overconfident"), key("over-p", "p − q, residual")]
    : [key("ink", "target p"), probs.q ? key("thin-q", "draft q") : nothing];
  const scaled = rows.some(({ beyond }) => beyond) ? html`<span class="key">∗ own scale</span>` : nothing;
  return html`${barTable(rows, marks, both, "p")}
    <p class="legend">${keys}${scaled}</p>`;
}

/** Bars of what was drafted alone, before the target has run. */
export function draftPicture(probs, marks) {
  const order = [...probs.q.keys()].sort((a, b) => probs.q[b] - probs.q[a]);
  const drafted = {
    ids: order.map((i) => probs.ids[i]),
    raw: order.map((i) => probs.raw[i]),
    p: order.map((i) => probs.q[i]),
    rest_p: probs.rest_q,
  };
  return html`${barTable(ruled(drafted, marks, false, 0), marks, false, "q")}
    <p class="legend">${key("thin-q", "draft q")}</p>`;
}

export function overlapLine(probs, first) {
  const alpha = overlap(probs);
  if (alpha === null) return nothing;
  const rest = ` · each hatched area sums to ${formatProb(1 - alpha)}${first ? "" : ", after earlier rejections"}`;
  return html`<p class="sum"><b>${explained(`α = Σ min(p, q) = ${formatProb(alpha)}`)}</b>${rest}</p>`;
}
