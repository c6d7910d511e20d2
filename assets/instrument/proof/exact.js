// Is it still the target: what is proved, where, and what this run's own record shows.

import { h } from "../base/dom.js";
import { counted } from "../base/format.js";
import { draftLane, isInside, plainLane } from "../base/store.js";
import { scrollable, table, tableRow } from "../draw/tables.js";
import { audit } from "./record-audit.js";
import { distributionFigure } from "../run/sentence.js";
import { html, nothing, render } from "../vendor/lit-html.js";

const RULES = {
  token: { name: "token rule", papers: ["2211.17192", "2302.01318"] },
  block: { name: "block verification", papers: ["2403.10444"] },
  rrsw: { name: "siblings without replacement (RRSw)", papers: ["2402.12374"] },
  deterministic: { name: "deterministic drafts: the target samples its own token", papers: ["2211.17192"] },
  typical: { name: "typical acceptance (lossy)", papers: ["2401.10774"] },
  lenient: { name: "leniency (lossy)", papers: ["2211.17192"] },
  "top-k": { name: "top-k agreement (lossy)", papers: [] },
  greedy: { name: "greedy: accept while the child is the target's most probable token", papers: [] },
};

const INSIDE =
  "The server's own code applied this rule. What its recorder sent of this run is checked below; draftscope audit URL --inside tests every tensor of many runs.";
const LOSSY = "This rule is lossy by design: the output does not follow the target's distribution.";
const PROVED = html`Proved: <code>engine/draftscope/verify/rules.py</code> states the rule in rational numbers;
  <code>tests/verify/test_rules.py</code> enumerates every draft, random number and last token and gets exactly the
  target's distribution; <code>tests/decode/test_distribution.py</code> samples the whole loop, and checks that
  deliberate mistakes are caught. The proof covers the rule; <code>draftscope check</code> tests your own pair.`;

export class ExactView {
  /** `cards` of tasks add what was tested otherwise. */
  constructor(cards) {
    this.cards = cards;
    this.root = h("div.sheet");
  }

  paint({ store, whole, busy }) {
    const draft = draftLane(store);
    const lane = draft || store.lanes[0];
    const { value, label, detail } = distributionFigure(lane, plainLane(store), whole);
    const view = html`
      <div class="sheet">
        <p class="result-line" data-figure="distribution"><b>${value}</b> ${label}: ${detail}.</p>
        ${proof(lane)} ${whole ? held(lane) : nothing}
      </div>
      ${this.cards.map((card) => card.view.template(busy, draft?.start))}
    `;
    render(view, this.root);
  }
}

function proof(lane) {
  const counts = new Map();
  for (const decision of lane.rounds.flatMap((r) => r.decisions))
    counts.set(decision.rule, (counts.get(decision.rule) || 0) + 1);
  if (!counts.size) return html`<p class="sum">Nothing was drafted, so no rule was applied.</p>`;
  return html`
    <h4>The rule</h4>
    <ul class="rules">
      ${[...counts].map(ruleLine)}
    </ul>
    <p class="sum">${isInside(lane) ? INSIDE : lane.start && !lane.start.exact ? LOSSY : PROVED}</p>
  `;
}

const ruleLine = ([kind, count]) =>
  html`<li>
    <b>${RULES[kind]?.name || kind}</b> · ${counted(count, "decision")} in this run
    ${(RULES[kind]?.papers || []).map(link)}
  </li>`;

const link = (paper) =>
  html`<a href=${`https://arxiv.org/abs/${paper}`} target="_blank" rel="noreferrer">${paper}</a> `;

function held(lane) {
  const row = ({ good, of, words }) => tableRow([`${good} of ${of}`, words], 1, good === of ? "" : "broken");
  return html`
    <h4>Checked here, from the recording</h4>
    ${scrollable("Checks", table(["holds", "what"], audit(lane).map(row)))}
  `;
}
