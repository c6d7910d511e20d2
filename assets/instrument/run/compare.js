// Compare: every drafter on one prompt, whole runs taking turns, measured when asked for. A table, one row a drafter.
//
// Rows are folded from the engine's `compared` events (engine/draftscope/measure/compare.py); a finished comparison
// stays until the next one is finished.

import { button, h, remark, setText } from "../base/dom.js";
import { counted, formatFigure, formatFixed, formatProb, median, shorten } from "../base/format.js";
import { askHost, hostCan } from "../base/host.js";
import { keep, recall } from "../base/kept.js";
import { Task } from "../base/task.js";
import { SortedTable } from "../draw/tables.js";
import { samplingWords } from "./provenance.js";

/** Rows of a comparison: the last event of each lane, with what follows from it. Pure. */
export function comparedRows(events) {
  const last = new Map(events.map((event) => [event.lane, event]));
  const plain = last.get("plain");
  const rate = (event, seconds) => event.tokens / seconds;
  const speed = (event) => (event && event.seconds.length ? rate(event, median(event.seconds)) : NaN);
  const pairs = (event) =>
    event.seconds.slice(0, plain?.seconds.length).map((s, i) => rate(event, s) / rate(plain, plain.seconds[i]));
  return [...last.values()].map((event) => ({
    ...event,
    c: plain && Number.isFinite(event.draft_ms) ? event.draft_ms / plain.round_ms : NaN,
    tau: event.rounds ? event.tokens / event.rounds : NaN,
    perSecond: speed(event),
    times: speed(event) / speed(plain),
    range: plain ? pairs(event) : [],
    why: whyNothing(event),
    runs: event.seconds.length,
  }));
}

/** Why every round wrote one token; empty where one wrote more, and for plain decoding. */
function whyNothing({ drafter, rounds, tokens, drafted, idle }) {
  if (drafter === "plain" || !rounds || tokens > rounds || drafted === undefined) return "";
  if (drafted) return `none of its ${counted(drafted, "drafted token")} was accepted`;
  return `drafted nothing here${idle ? `: ${idle}` : ""}`;
}

/** Rows by one of their figures, largest first or last; then rows without it, then those of chosen acceptance. */
export function sortedRows(rows, by, down) {
  const value = (row) => (Number.isFinite(row[by]) ? row[by] : null);
  return [...rows].sort((a, b) => {
    if (a.synthetic !== b.synthetic) return a.synthetic ? 1 : -1;
    if (by === "title") return (down ? -1 : 1) * a.title.localeCompare(b.title);
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return down ? y - x : x - y;
  });
}

const COLUMNS = [
  ["title", "drafter", ""],
  ["c", "c", "one draft step / one round of plain decoding (medians)"],
  ["tau", "τ", "tokens / rounds"],
  ["perSecond", "tokens/s", "tokens / median time of a whole run, reading the prompt included"],
  [
    "times",
    "× plain",
    "tokens/s / tokens/s of plain decoding, same comparison; in brackets the range of the pairs of runs",
  ],
  ["runs", "runs", "whole runs"],
];
const fits = (kept) =>
  Array.isArray(kept.ev) &&
  kept.ev.every((event) => Array.isArray(event.seconds) && typeof event.title === "string") &&
  typeof kept.about?.prompt === "string";

export class CompareView {
  constructor(repaint) {
    this.repaint = repaint;
    this.task = new Task("compare", "Compare all drafters");
    this.done = recall("compare", fits); // the last one that was finished
    this.of = h("p.note");
    const rows = (by, down) => sortedRows(comparedRows(this.shown.ev), by, down).map(line);
    const falls = (by) => by !== "title" && by !== "c";
    this.table = new SortedTable("Drafters compared", COLUMNS, rows, falls, { by: "times", down: true });
    this.legend = h("p.sum");
    this.root = h(
      "div.sheet.compare",
      remark(
        "Runs every drafter available here on this prompt with these settings: whole runs, taking turns, nothing recorded.",
      ),
      this.task.root,
      this.of,
      this.table.root,
      this.legend,
    );
  }

  absent() {
    return !hostCan("compare");
  }

  get answer() {
    return this.task.answer;
  }

  /** True for one that goes on from before a reload. */
  take(answer) {
    const goesOn = this.task.take(answer);
    const whole = answer.state === "done" && !answer.note && answer.about && runsOf(answer) === wanted(answer);
    if (whole) {
      this.done = { about: answer.about, ev: answer.ev };
      keep("compare", this.done);
    }
    this.stamp = "";
    this.repaint();
    return goesOn;
  }

  get running() {
    return this.task.running;
  }

  paint({ busy }) {
    const cut = this.answer && !this.answer.note && runsOf(this.answer) < wanted(this.answer);
    const kept = this.done ? ": the last complete comparison is shown" : "";
    this.task.paint(!busy, progressOf, cut ? `cancelled${kept}` : "");
    const stamp = `${this.running}/${this.answer?.ev.length}/${this.done?.about.created}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.shown = this.running && this.answer.ev.length ? this.answer : this.done;
    this.of.hidden = this.legend.hidden = this.table.root.hidden = !this.shown;
    if (!this.shown) return;
    setText(this.of, aboutWords(this.shown.about));
    this.table.paint();
    setText(
      this.legend,
      COLUMNS.slice(1, 5)
        .map(([, name, meaning]) => `${name}: ${meaning}`)
        .join(" · ") + ". Click a drafter's name to select it in the controls.",
    );
  }
}

function line(row) {
  const marks = [row.synthetic ? "synthetic" : "", row.exact ? "" : `lossy: ${row.rule}`].filter(Boolean);
  const figures = row.refused
    ? [h("td", { colspan: "5" }, row.refused)]
    : [
        formatProb(row.c),
        formatFixed(row.tau, 2),
        formatFigure(row.perSecond),
        Number.isFinite(row.times) ? `${row.times.toFixed(2)}×${rangeWords(row.range)}` : "–",
        String(row.runs),
      ];
  const name = [
    button(row.title, () => askHost("set", { drafter: row.drafter }), { class: "link" }),
    marks.map((text) => h("span.badge.caveat", text)),
    row.why ? h("span.note.why", row.why) : null,
  ];
  return [{ "data-drafter": row.drafter }, name.flat(), ...figures];
}

const rangeWords = (ratios) =>
  ratios.length > 1 ? ` [${Math.min(...ratios).toFixed(2)}, ${Math.max(...ratios).toFixed(2)}]` : "";

const runsOf = (answer) =>
  comparedRows(answer.ev).reduce((sum, row) => sum + (row.refused ? answer.about.repeats : row.runs), 0);
const wanted = (answer) => answer.about.lanes * answer.about.repeats;

const progressOf = (answer) => `${runsOf(answer)} of ${wanted(answer)} runs`;

function aboutWords(about) {
  const when = String(about.created).slice(0, 16).replace("T", " ");
  return `“${shorten(about.prompt, 60)}” · ${samplingWords(about)} · seed ${about.seed} · at most ${about.tokens} tokens · ${when} UTC`;
}
