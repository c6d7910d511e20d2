// What was measured of each server of a race, and what the servers counted: one row a lane.

import { h } from "../base/dom.js";
import { counted, formatFigure, formatMs, formatProb, median } from "../base/format.js";
import { ofServers } from "../base/store.js";
import { scrollable, table } from "../draw/tables.js";
import { speedOf, timesOf } from "../run/served.js";
import { html, nothing, render } from "../vendor/lit-html.js";

const SEEN = ["tokens/s", "× first", "TTFT", "TPOT", "gap p50", "gap p99", "tokens/burst"];
const MISSING = "–";

export class MeasuredServers {
  constructor() {
    this.root = h("section.card.measured", { hidden: true });
  }

  paint(store) {
    this.root.hidden = !ofServers(store) || !store.lanes.some((lane) => lane.served || lane.end?.message);
    if (this.root.hidden) return;
    const p = store.lanes.some((lane) => lane.forced);
    const heads = ["lane", ...SEEN, "accepted", "at position", ...(p ? ["log p", "best"] : [])];
    const rows = store.lanes.map((lane) => row(lane, store.lanes[0], p));
    const view = html`
      <h3>What was measured</h3>
      ${scrollable("What was measured", table(heads, rows, 0, groups(p)))} ${remarks(notesOf(store))}
      <p class="sum">${legendOf(store, p)}</p>
    `;
    render(view, this.root);
  }
}

/** `notes` are [name, text]. */
export const remarks = (notes) =>
  notes.length
    ? html`<ul class="rules remarks">
        ${notes.map(([name, text]) => html`<li><b>${name}: </b>${text}</li>`)}
      </ul>`
    : nothing;

const span = (n, words) => html`<th class="group" colspan=${n} scope="colgroup">${words}</th>`;
const groups = (p) =>
  html`<tr>
    <td></td>
    ${span(SEEN.length, "seen from here")} ${span(2, "counted by the server")} ${p ? span(2, "computed here") : nothing}
  </tr>`;

function row(lane, first, p) {
  const { served } = lane;
  const [speed, times] = [speedOf(lane), timesOf(lane, first)];
  const ms = (values) => (values?.length ? formatMs(median(values)) : MISSING);
  const one = (value) => (Number.isFinite(value) ? formatMs(value) : MISSING);
  return [
    lane.name,
    speed ? formatFigure(speed.median) : MISSING,
    times ? times.median.toFixed(2) : MISSING,
    ms(served?.ttft_ms),
    ms(served?.tpot_ms),
    one(served?.gap_p50_ms),
    one(served?.gap_p99_ms),
    Number.isFinite(served?.per_burst) ? served.per_burst.toFixed(2) : MISSING,
    ...acceptance(served),
    ...(p ? computed(lane) : []),
  ];
}

function acceptance(served) {
  if (!served || !Number.isFinite(served.drafted)) return [MISSING, MISSING];
  const share = served.drafted
    ? `${served.accepted} of ${served.drafted}: ${formatProb(served.accepted / served.drafted)}`
    : "nothing drafted";
  const places = served.rounds ? served.by_position.map((n) => formatProb(n / served.rounds)) : [];
  return [share, places.length ? places.join(" ") : MISSING];
}

function computed({ forced }) {
  if (!forced) return [MISSING, MISSING];
  const right = forced.best.filter(Boolean).length / forced.best.length;
  const nats = Number.isFinite(forced.log_p)
    ? `${forced.log_p < 0 ? "−" : "+"}${Math.abs(forced.log_p).toFixed(2)}`
    : MISSING;
  return [nats, formatProb(right)];
}

const notesOf = (store) =>
  store.lanes.flatMap((lane) =>
    (lane.served?.notes.length ? lane.served.notes : lane.end?.message ? [lane.end.message] : []).map((text) => [
      lane.name,
      text,
    ]),
  );

function legendOf(store, p) {
  const n = Math.max(0, ...store.lanes.map((lane) => lane.served?.seconds.length || 0));
  const words = [
    `Medians of ${counted(n, "answer")} after a warm-up; gaps are between bursts, of all answers; × first within the same answer`,
    "accepted: of drafted tokens; at position: accepted there / rounds that drafted, a server's counters count all its requests",
  ];
  if (p) {
    const { target } = store.lanes.find((lane) => lane.forced).forced;
    words.push(
      `log p: nats a token under ${target}, loaded here, minus the expectation: near 0 if the server samples from it; best: tokens that are its most probable one`,
    );
  } else words.push("p of the tokens needs the servers' model: load it under Other models");
  return `${words.join(". ")}.`;
}
