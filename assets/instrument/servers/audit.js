// The audit card: is a server's text still distributed as its target's? Folded from `audit` events
// (engine/draftscope/servers/audit/progress.py), which come wave by wave.

import { button, h, remark, s, setText } from "../base/dom.js";
import { counted, formatFigure, formatMs } from "../base/format.js";
import { queueWords } from "../base/task.js";
import { scrollable, table } from "../draw/tables.js";

const BETS = {
  score: "mean log-probability",
  ranks: "ranks",
  tokens: "single tokens",
  contexts: "tokens by context",
  repetition: "repeated texts",
  positions: "single positions",
};

/** What an audit has found so far. */
export function resultOf(audit, running) {
  if (!audit.verdict) return running ? "running" : "stopped";
  if (audit.different) return "differs";
  if (audit.incomplete) return "incomplete";
  return audit.undecided ? "undecided" : "same";
}

const RESULTS = {
  running: "? undecided so far",
  stopped: "? undecided: stopped",
  incomplete: "? undecided: the server failed",
  undecided: "? undecided: this could not tell",
  differs: "✗ differs from its target",
  same: "✓ no difference found",
};

/** A difference may be in greedy texts, or in what is reported, alone. */
export const resultWords = (audit, result) =>
  result === "differs" && audit.evidence < audit.needed ? "✗ differs, but not in its samples" : RESULTS[result];

export class AuditCard {
  constructor(stop, remove) {
    this.result = h("p.verdict", { role: "status" });
    this.title = h("h2");
    this.stop = button("Stop", stop);
    this.close = button("Close", remove);
    this.sentence = h("p.verdict-sentence");
    this.progress = h("p.sum");
    this.example = h("div.example", { hidden: true });
    this.bets = h("div.bets");
    this.places = scrollable("Log-probability by position");
    this.more = h("details", { hidden: true }, h("summary", "By position in the text"), this.places);
    this.root = h(
      "section.audit",
      h("header.card-head.wrap", this.title, h("div.controls", this.stop, this.close)),
      this.result,
      this.sentence,
      this.progress,
      this.example,
      this.bets,
      this.more,
    );
  }

  paint(audit, answer, running) {
    const result = resultOf(audit, running);
    this.root.dataset.result = result;
    setText(this.title, `${audit.server} against ${audit.against}`);
    setText(this.result, resultWords(audit, result));
    setText(this.sentence, audit.verdict || "");
    this.sentence.hidden = !audit.verdict;
    setText(this.progress, progressWords(audit, answer, running));
    this.stop.hidden = !running;
    this.close.hidden = running;
    this.paintExample(audit);
    this.bets.replaceChildren(...betRows(audit));
    this.more.hidden = !audit.positions.length;
    this.places.replaceChildren(placesTable(audit.positions));
  }

  paintExample({ different, example }) {
    this.example.hidden = !different || !example;
    if (this.example.hidden) return;
    this.example.replaceChildren(
      remark("The text that the target finds least likely, of all that it wrote:"),
      h("p.pane-text", h("span.prompt", example.prompt), h("b", example.text)),
    );
  }
}

function progressWords(audit, answer, running) {
  const queued = running && queueWords(answer);
  if (queued) return queued;
  const at = `T ${audit.temperature} · a difference is called clear at ${formatFigure(audit.needed)} nats of evidence: a false alarm once in ${Math.round(1 / audit.false_alarm).toLocaleString("en")}, however often one looks`;
  if (!audit.texts) return running ? `comparing greedy texts${audit.temperature ? " first" : ""} · ${at}` : at;
  return `${counted(audit.texts, "sample")} of at most ${audit.samples}, ${formatMs(1000 * audit.seconds)} · ${at}`;
}

/** Evidence of each kind of bet, and of all together, on one scale. */
export function betRows(audit) {
  const parts = Object.entries(audit.parts);
  if (!audit.texts) return [];
  const rows = [["all together", audit.evidence], ...parts.map(([name, value]) => [BETS[name] || name, value])];
  const most = 1.5 * audit.needed;
  return rows.map(([name, value], i) => betRow(name, value, audit.needed, most, i === 0));
}

function betRow(name, value, needed, most, whole) {
  const wide = (100 * Math.max(0, Math.min(value, most))) / most;
  const line = (100 * needed) / most;
  return h(
    "div",
    { class: `bet${whole ? " whole" : ""}${whole && value >= needed ? " clear" : ""}` },
    h("span", name),
    s(
      "svg",
      { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      s("rect.ground", { x: 0, y: 4.5, width: 100, height: 1 }),
      s("rect.bar", { x: 0, y: 2, width: wide, height: 6 }),
      whole ? s("rect.needed", { x: line, y: 0, width: 0.6, height: 10 }) : s("g"),
    ),
    h("span.bet-value", `${value < 0 ? "−" : ""}${formatFigure(Math.abs(value))}`),
  );
}

function placesTable(positions) {
  const heads = ["token", "samples", "log p − E log p", "standard error", "z"];
  const signed = (x, digits) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(digits)}`;
  const row = ({ position, tokens, score, error, z }) => [
    { class: Math.abs(z) >= 5 ? "broken" : "" },
    position,
    tokens,
    signed(score, 2),
    error.toFixed(2),
    signed(z, 1),
  ];
  return table(heads, positions.map(row));
}
