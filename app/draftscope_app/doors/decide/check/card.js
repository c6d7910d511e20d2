// The button that checks this pair and drafter by sampling, and its results.
//
// Folded from `checked` events (engine/draftscope/measure/check.py). It never says "exact": it says that no difference
// was found, on how much, and how often such a test raises a false alarm; for a lossy rule, how far its distribution
// lies from the target's.

import { counted, formatFigure, formatProb, timeLeft } from "../../../base/format.js";
import { hostCan } from "../../../base/host.js";
import { keep, recall } from "../../../base/kept.js";
import { Task } from "../../../base/task.js";
import { scrollable, table, tableRow } from "../../../draw/tables.js";
import { html, nothing } from "../../../vendor/lit-html.js";

const MOST = 32; // checks kept
const NONE =
  "Samples the whole decoding loop on this machine, with its caches, masks and random numbers, and compares it with the target's distribution. Takes a minute or more.";
const whole = (done) =>
  done && Array.isArray(done.findings) && Array.isArray(done.models) && typeof done.verdict === "string";
const fits = (kept) => Array.isArray(kept) && kept.every(whole);

/** What a check was of: another one of the same replaces it. Of a rule's numbers only those that it reads. */
const questionOf = ({ models, drafter, rule, of = {} }) =>
  JSON.stringify([
    models,
    drafter,
    rule,
    rule === "lenient" ? of.lenience : rule === "top-k" ? of.agreement : null,
    lengthOf(of),
  ]);

/** How a chain's length was chosen, where it was not fixed. */
const lengthOf = (of) => (of.draft_length && of.draft_length !== "fixed" ? of.draft_length : null);

/** What a check of the shown run would be of. A check without a rule is of a drafter whose rule is fixed. */
const questionOfRun = (start, rule) =>
  questionOf({
    models: start.models.map((m) => m.name),
    drafter: start.drafter,
    rule: rule && start.rule,
    of: start.settings,
  });

class CheckCard {
  constructor({ request }) {
    this.repaint = request;
    this.task = new Task("check", "Check this pair and drafter");
    this.done = recall("checks", fits) || []; // the newest first
  }

  get answer() {
    return this.task.answer;
  }

  /** True for one that goes on from before a reload. */
  take(answer) {
    const goesOn = this.task.take(answer);
    const last = answer.ev[answer.ev.length - 1];
    if (last && last.verdict) {
      const done = { ...last, of: answer.about?.settings };
      this.done = [done, ...this.done.filter((other) => questionOf(other) !== questionOf(done))].slice(0, MOST);
      keep("checks", this.done);
    }
    this.repaint();
    return goesOn;
  }

  get running() {
    return this.task.running;
  }

  /** `start`: of the shown run's drafting lane, if there is one. */
  template(busy, start) {
    if (!hostCan("check")) return nothing;
    const last = this.answer?.ev[this.answer.ev.length - 1];
    const same = start && this.done.find((done) => questionOf(done) === questionOfRun(start, done.rule));
    const others = start ? this.done.filter((done) => done !== same && done.models[0] === start.models[0].name) : [];
    return html`<div class="block check">
      <h4>Checked by sampling</h4>
      ${this.task.template(!busy && start, progressOf, last && !last.verdict ? "cancelled: no conclusion" : "")}
      <div class="block">
        ${same ? resultParts(same) : html`<p class="sum">${NONE}</p>`} ${others.length ? otherChecks(others) : nothing}
      </div>
    </div>`;
  }
}

function progressOf({ ev: [last] }) {
  if (!last) return "starting";
  return [`${last.findings.length} of ${last.tests} tests`, timeLeft(last.seconds_left)].filter(Boolean).join(", ");
}

/** Checks of this target's other drafters, rules and settings, each in a line. */
const otherChecks = (others) =>
  html`<details>
    <summary>${counted(others.length, "other check")} of this target</summary>
    <ul class="rules">
      ${others.map((done) => html`<li><b>${what(done)}: </b><span>${valueOf(done)}, ${when(done)} UTC</span></li>`)}
    </ul>
  </details>`;

const when = (done) => String(done.created).slice(0, 16).replace("T", " ");
const lawOf = (done) => done.findings[done.findings.length - 1];
const isLossy = (done) => Number.isFinite(lawOf(done)?.total_variation);
const failures = (done) => done.findings.filter((finding) => !finding.passed);
const tiesOf = (done) => done.findings.reduce((sum, finding) => sum + (finding.ties || 0), 0);
const valueOf = (done) =>
  failures(done).length
    ? failures(done).every((finding) => finding.error)
      ? "The engine ended with an error"
      : "A difference was found"
    : isLossy(done)
      ? "differs"
      : done.findings.some((finding) => finding.undecided)
        ? "undecided, since too little was drafted to find a difference"
        : `no difference found${tiesOf(done) ? `, ${counted(tiesOf(done), "tie")}` : ""}`;

/** The result of one test in a word. */
const resultOf = (finding) =>
  finding.error
    ? "error"
    : !finding.passed
      ? "differs"
      : finding.undecided
        ? "undecided"
        : finding.ties
          ? "tie"
          : Number.isFinite(finding.total_variation)
            ? "measured"
            : "ok";

/** The drafter, and its rule with the number that it reads. */
function what({ title, rule, of = {} }) {
  const number =
    rule === "lenient" && of.lenience !== undefined
      ? `, l = ${of.lenience}`
      : rule === "top-k" && of.agreement !== undefined
        ? `, k = ${of.agreement}`
        : "";
  const length = lengthOf(of) ? `, length by ${lengthOf(of)}` : "";
  return `${title}${rule ? `, rule ${rule}${number}` : ""}${length}`;
}

const findingRow = (finding) =>
  tableRow([resultOf(finding), finding.name, finding.detail], 1, finding.passed ? "" : "broken");

function resultParts(done) {
  const [failed, distribution, lossy, value] = [failures(done), lawOf(done), isLossy(done), valueOf(done)];
  const detail = failed.length
    ? failed.map((finding) => finding.name).join(", ")
    : lossy
      ? `total variation ${formatProb(distribution.total_variation)}, KL ${Number.isFinite(distribution.kl) ? `${formatFigure(distribution.kl)} nats` : "infinite"} from the target's joint distribution, by design`
      : `n = ${done.samples.toLocaleString("en")} samples of the joint distribution, p = ${formatProb(distribution.p_value)}`;
  const often = lossy
    ? `n = ${done.samples.toLocaleString("en")} samples.`
    : `A correct implementation fails such a test once in ${Math.round(1 / done.false_alarm).toLocaleString("en")}.`;
  return html`
    <p class="result-line"><b>${value}</b>: ${detail}.</p>
    <p class="sum">
      ${what(done)} on ${done.models.join(" + ")}, ${when(done)} UTC. ${often} Tested: the joint distribution of the
      next four tokens, γ 3.
    </p>
    ${scrollable("Findings of the check", table(["result", "test", "found"], done.findings.map(findingRow)))}
  `;
}

export const card = { area: "exact", noun: "check", hears: "check", make: (page) => new CheckCard(page) };
