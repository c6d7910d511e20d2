// Fork here: the lane is left at the decision that is shown, with another seed or with a token of the reader's choice.
//
// The engine decodes it as a lane of its own; this card only collects the request. Without an engine (a
// recorded run, an exported page) nothing is offered.

import { h } from "../base/dom.js";
import { formatProb, shorten, visible } from "../base/format.js";
import { askHost, hostCan } from "../base/host.js";
import { decisionAt, isInside, temperatureOf } from "../base/store.js";
import { explainedWords } from "../base/symbols.js";
import { smallButton } from "../base/templates.js";
import { html, keyed, nothing, render } from "../vendor/lit-html.js";

const MAX_LANES = 4;
const ROWS = 12;

const GREEDY = "At temperature 0 nothing is sampled: only a forced token changes the text.";
const SAMPLED = "Continues from here in a new lane, with another seed or with the chosen token.";

export class ForkBar {
  constructor() {
    this.root = h("div.fork", { role: "group", "aria-label": "Fork here" });
  }

  paint(store, selection, known, busy) {
    const round = selection && selection.lane.rounds[selection.round];
    this.root.hidden = !round || !known.result || !hostCan("fork") || isInside(selection.lane);
    if (this.root.hidden) return;
    const { lane, slot } = selection;
    this.at = { lane, round, slot };
    const greedy = temperatureOf(lane) === 0;
    const reason = refusal(store, busy);
    const barred = Boolean(reason) || greedy;
    const view = html`
      <div class="controls">
        <b>Fork here</b>
        ${smallButton("New seed", () => this.ask(null), barred)}
        ${this.forced(offered(round, slot), `${lane.start?.run}/${lane.name}/${round.index}/${slot}`, reason)}
      </div>
      <p class="note">${explainedWords(reason || (greedy ? GREEDY : SAMPLED))}</p>
    `;
    render(view, this.root);
  }

  /** `decision` names where the rows were read: another one begins with its likeliest. */
  forced(rows, decision, reason) {
    if (!rows.length) return nothing;
    const option = ({ id, raw, p }) =>
      html`<option value=${id}>${`${shorten(visible(raw), 14)}  p ${formatProb(p)}`}</option>`;
    const force = () => this.ask(Number(this.root.querySelector("select").value));
    return html`
      <select aria-label="Token to force" ?disabled=${reason}>
        ${keyed(decision, rows.map(option))}
      </select>
      ${smallButton("Force this token", force, reason)}
    `;
  }

  ask(token) {
    const { lane, round, slot } = this.at;
    askHost("fork", { lane: lane.name, round: round.round, slot, token });
  }
}

/** Why nothing can be forked now; empty where it can. */
function refusal(store, busy) {
  if (store.source !== "live") return "A recorded run cannot be forked: press Run first.";
  if (busy) return "Something still runs for you; fork once it is over.";
  if (store.lanes.length >= MAX_LANES) return `${MAX_LANES} lanes are the most; press Run to start again.`;
  return "";
}

/** The rows of the distribution that decided here, likeliest first; the one that was written is not offered. */
function offered(round, slot) {
  const probs =
    decisionAt(round, slot)?.distributions[0] || (round.last.slot === slot ? round.last.distributions : null);
  if (!probs) return [];
  const written = writtenAt(round, slot);
  return probs.ids
    .map((id, i) => ({ id, raw: probs.raw[i], p: probs.p[i] }))
    .filter((row) => row.id !== written)
    .sort((a, b) => b.p - a.p)
    .slice(0, ROWS);
}

/** The token that the text went on with below a slot; null where it did not come to that slot. */
function writtenAt(round, slot) {
  const child = round.nodes.find((n) => n.parent === slot && n.fate === "accepted");
  return child ? child.token : round.last.slot === slot ? round.last.token : null;
}
