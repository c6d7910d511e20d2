// Two pictures that only lessons show, folded from the run like everything else: forwards by rows, and when tokens
// arrive.

import { counted, formatFigure, formatMs, median } from "../../../base/format.js";
import { draftLane, plainLane } from "../../../base/store.js";
import { foldedTable } from "../../../draw/tables.js";
import { html, svg } from "../../../vendor/lit-html.js";

/** [{rows, v, ms}]: a forward of the target over so many rows, as this machine was measured, beside one over one row. */
export function byRows(lane) {
  const one = median(lane.rounds.map((round) => round.timings.verify));
  const { widths, v } = lane.verify;
  return widths.map((rows, i) => ({ rows, v: v[i], ms: v[i] * one }));
}

/** A bar for each number of rows. */
export function rowBars(lane) {
  const all = byRows(lane);
  const most = all[all.length - 1].v;
  const bar = ({ rows, v, ms }) =>
    html`<div role="row">
      <span role="rowheader">${counted(rows, "row")}</span>
      <div role="cell" aria-hidden="true"><i style="width: ${(100 * v) / most}%"></i></div>
      <span role="cell">${`${formatMs(ms)}, ${formatFigure(v)}×`}</span>
    </div>`;
  return html`<div class="rowbars" role="table" aria-label="A target forward by its rows">${all.map(bar)}</div>`;
}

/** When each token of a lane reaches the reader: as its round ends, or `paced`, spread until the next round ends. */
export function arrivalsOf(lane, paced) {
  return lane.rounds.flatMap((round, i) => {
    const next = lane.rounds[i + 1];
    const room = paced && next ? next.end - round.end : 0;
    return round.emitted.map((_, k) => round.end + (room * k) / round.emitted.length);
  });
}

export const gapsOf = (times) => times.slice(1).map((at, i) => at - times[i]);

const WIDE = 1000; // units of one row of ticks, whatever its width on the page

/** Three rows of ticks on one clock: plain, in bursts, paced; and the gaps as a table. */
export function arrivalPicture(store) {
  const [plain, draft] = [plainLane(store), draftLane(store)];
  const rows = [
    ["plain", "plain decoding", arrivalsOf(plain, false)],
    ["burst", "as rounds end", arrivalsOf(draft, false)],
    ["paced", "paced (modelled)", arrivalsOf(draft, true)],
  ];
  const end = Math.max(...rows.map(([, , times]) => times[times.length - 1]));
  const words = rows
    .map(
      ([, name, times]) => `${name}: ${counted(times.length, "token")}, median gap ${formatMs(median(gapsOf(times)))}`,
    )
    .join("; ");
  const cells = ([, name, times]) => [
    name,
    times.length,
    formatMs(median(gapsOf(times))),
    formatMs(Math.max(...gapsOf(times))),
  ];
  const ticks = ([look, name, times]) =>
    html`<span>${name}</span>
      <svg viewBox="0 0 ${WIDE} 22" preserveAspectRatio="none">
        <path class="rule" d="M0 22H${WIDE}"></path>
        <path class=${look} d=${times.map((at) => `M${((WIDE * at) / end).toFixed(1)} 2v20`).join("")}></path>
      </svg>`;
  return html`<div>
    <div class="arrivals" role="img" aria-label="When each token arrives, from 0 to ${formatMs(end)}. ${words}">
      ${rows.map(ticks)}<span></span>
      <p class="ends"><span>0</span><span>${formatMs(end)}</span></p>
    </div>
    ${foldedTable("The gaps as a table", ["", "tokens", "median gap", "largest gap"], rows.map(cells))}
  </div>`;
}

/**
 * Where a round's draft was copied from: {at, length, from, accepted}; `at` and `from` are places in prompt and text.
 */
export const copiesOf = (lane) =>
  lane.rounds
    .filter((r) => r.nodes.length)
    .flatMap((round) => {
      const match = /^(\d+)-gram, seen at token (\d+)$/.exec(round.nodes[0].origin);
      return match
        ? [
            {
              round,
              length: Number(match[1]),
              from: Number(match[2]),
              at: lane.start.prompt_tokens + round.firstToken,
              accepted: round.accepted,
            },
          ]
        : [];
    });

const TALL = 120;

/** Arcs from each copied draft back to its source, over the prompt and the text; and the same as a table. */
export function copyPicture(lane) {
  const copies = copiesOf(lane);
  const prompt = lane.start.prompt_tokens;
  const x = (at) => (WIDE * at) / (prompt + lane.tokens.length);
  const arc = ({ from, at, accepted }) => {
    const wide = (x(at) - x(from)) / 2;
    const d = `M${x(at)} ${TALL - 8}A${wide} ${Math.min(TALL - 12, wide)} 0 0 0 ${x(from)} ${TALL - 8}`;
    return svg`<path class=${accepted ? "accepted" : "rejected"} stroke-width=${1 + accepted / 2} d=${d}></path>`;
  };
  const words = `${counted(copies.length, "draft")} copied, ${copies.filter((c) => c.accepted).length} of them with at least one token accepted`;
  const heads = ["round", "at token", "copied from", "matched", "drafted", "accepted"];
  const cells = (c) => [c.round.index + 1, c.at, c.from, c.length, c.round.drafted, c.accepted];
  return html`<div class="copies">
    <svg
      viewBox="0 0 ${WIDE} ${TALL}"
      preserveAspectRatio="none"
      role="img"
      aria-label="Arcs from each copied draft to its source. ${words}"
    >
      <path class="prompt" d="M0 ${TALL - 4}H${x(prompt)}"></path>
      <path class="written" d="M${x(prompt)} ${TALL - 4}H${WIDE}"></path>
      ${copies.map(arc)}
    </svg>
    <p class="ends">
      <span>prompt, ${counted(prompt, "token")}</span><span>${counted(lane.tokens.length, "token")} of output</span>
    </p>
    ${foldedTable("The arcs as a table", heads, copies.map(cells))}
  </div>`;
}
