// The picture of a lesson's step for a phone: guesses, bars or a table's rows instead of canvases and trees.

import { counted, formatFigure, visible } from "../../../base/format.js";
import { fateAt } from "../../../base/stages.js";
import { stateAt } from "../../../base/store.js";
import { laneTitle } from "../../../run/titles.js";

const ROWS_MOST = 12;

/** What a step shows, as {guesses, bars, rows}; at most one of them has something. `figure` is where its own stands. */
export function narrowPicture(show, store, cursor, figure) {
  if (figure) return ofFigure(figure);
  if (/tree|decision|scale/.test(show) && cursor.round) return { guesses: guessesAt(cursor.round, cursor.known()) };
  if (/lanes|strip|measured/.test(show)) return { bars: barsOf(store.lanes) };
  return {};
}

/** The guesses of a round as far as they are known at a beat. */
export function guessesAt(round, known) {
  const judged = new Map(round.decisions.flatMap(({ children }) => children).map((child) => [child.node, child]));
  const guesses = round.nodes.map((node) => {
    const fate = known.drafted ? fateAt(round, known, node) : "drafted";
    const child = known.decided.has(node.id) || known.result ? judged.get(node.id) : null;
    return {
      text: visible(node.raw),
      parent: round.nodes.findIndex(({ id }) => id === node.parent),
      fate: fate === "drafted" ? null : fate,
      p: known.verified ? node.p : null,
      q: node.q ?? null,
      threshold: child?.threshold ?? null,
      u: child?.uniform ?? null,
    };
  });
  const { kind, raw } = round.last;
  return known.result
    ? [...guesses, { text: visible(raw), fate: kind === "correction" ? "correction" : "bonus" }]
    : guesses;
}

function barsOf(lanes) {
  const written = lanes.map((lane) => stateAt(lane, lane.clock));
  const most = Math.max(...written.map(({ perSecond }) => perSecond || 0));
  return lanes.map((lane, i) => ({
    name: laneTitle(lane),
    value: `${formatFigure(written[i].perSecond)} tokens/s · ${counted(written[i].rounds, "round")}`,
    part: written[i].perSecond / most || 0,
  }));
}

function ofFigure(figure) {
  const bars = Array.from(figure.querySelectorAll(".rowbars [role=row]"), (row) => ({
    name: row.firstElementChild.textContent,
    value: row.lastElementChild.textContent,
    part: Number.parseFloat(row.querySelector("i").style.width) / 100,
  }));
  if (bars.length) return { bars };
  const rows = Array.from(figure.querySelector("table")?.rows ?? [], (row) =>
    Array.from(row.cells, (cell) => cell.textContent),
  );
  return { rows: rows.slice(0, ROWS_MOST) };
}
