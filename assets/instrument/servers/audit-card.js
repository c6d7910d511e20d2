// The audit card: is a server's text still distributed as its target's? Folded from `audit` events
// (engine/draftscope/servers/audit/audit_events.py), which come wave by wave.

import { counted, formatFigure, formatMs } from "../base/format.js";
import { foldedTable, tableRow } from "../draw/tables.js";
import { html, nothing, svg } from "../vendor/lit-html.js";

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

/** `controls`: buttons of a card that can be stopped or closed. */
export function auditCard(audit, answer, running, controls = nothing) {
  const result = resultOf(audit, running);
  return html`<section class="audit" data-result=${result}>
    <header class="card-head wrap">
      <h2>${audit.server} against ${audit.against}</h2>
      <div class="controls">${controls}</div>
    </header>
    <p class="verdict" role="status">${resultWords(audit, result)}</p>
    ${audit.verdict ? html`<p class="verdict-sentence">${audit.verdict}</p>` : nothing}
    <p class="sum">${progressWords(audit, answer, running)}</p>
    ${audit.different && audit.example ? exampleOf(audit.example) : nothing}
    <div class="bets">${betRows(audit)}</div>
    ${audit.positions.length ? placesOf(audit.positions) : nothing}
  </section>`;
}

const exampleOf = ({ prompt, text }) =>
  html`<div class="example">
    <p class="sum">The text that the target finds least likely, of all that it wrote:</p>
    <p class="pane-text"><span class="prompt">${prompt}</span><b>${text}</b></p>
  </div>`;

function progressWords(audit, answer, running) {
  if (running && answer.waits) return answer.waits;
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
  return html`<div class="bet ${whole ? "whole" : ""} ${whole && value >= needed ? "clear" : ""}">
    <span>${name}</span>
    <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="ground" x="0" y="4.5" width="100" height="1"></rect>
      <rect class="bar" x="0" y="2" width=${wide} height="6"></rect>
      ${whole ? svg`<rect class="needed" x=${line} y="0" width="0.6" height="10"></rect>` : nothing}
    </svg>
    <span class="bet-value">${value < 0 ? "−" : ""}${formatFigure(Math.abs(value))}</span>
  </div>`;
}

const HEADS = ["token", "samples", "log p − E log p", "standard error", "z"];

function placesOf(positions) {
  const signed = (x, digits) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(digits)}`;
  const row = ({ position, tokens, score, error, z }) =>
    tableRow([position, tokens, signed(score, 2), error.toFixed(2), signed(z, 1)], 0, Math.abs(z) >= 5 ? "broken" : "");
  return foldedTable("By position in the text", HEADS, positions.map(row), "Log-probability by position");
}
