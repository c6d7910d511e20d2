// Fork here: the lane is left at the decision that is shown, with another seed or with a token of the reader's choice.
//
// The engine decodes it as a lane of its own; this card only collects the request. Without an engine (a
// recorded run, an exported page) nothing is offered.

import { button, h, setText } from "../base/dom.js";
import { formatProb, shorten, visible } from "../base/format.js";
import { askHost, hostCan } from "../base/host.js";
import { decisionAt, isInside, temperatureOf } from "../base/store.js";

const MAX_LANES = 4;
const ROWS = 12;

export class ForkBar {
  constructor() {
    this.token = h("select", { "aria-label": "Token to force" });
    this.force = button("Force this token", () => this.ask(Number(this.token.value)));
    this.uniform = button("New seed", () => this.ask(null));
    this.why = h("p.note");
    this.root = h(
      "div.fork",
      { role: "group", "aria-label": "Fork here" },
      h("div.controls", h("b", "Fork here"), this.uniform, this.token, this.force),
      this.why,
    );
  }

  paint(store, selection, known, busy) {
    const round = selection && selection.lane.rounds[selection.round];
    this.root.hidden = !round || !known.result || !hostCan("fork") || isInside(selection.lane);
    if (this.root.hidden) return;
    this.at = { lane: selection.lane, round, slot: selection.slot };
    const greedy = temperatureOf(selection.lane) === 0;
    const reason = refusal(store, busy);
    this.uniform.disabled = Boolean(reason) || greedy;
    this.token.disabled = this.force.disabled = Boolean(reason);
    setText(
      this.why,
      reason ||
        (greedy
          ? "At temperature 0 nothing is sampled: only a forced token changes the text."
          : "Continues from here in a new lane, with another seed or with the chosen token."),
    );
    this.offer();
  }

  /** The rows of the distribution that decided here, likeliest first; the one that was written is not offered. */
  offer() {
    const { lane, round, slot } = this.at;
    const stamp = `${lane.start?.run}/${lane.name}/${round.index}/${slot}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    const probs =
      decisionAt(round, slot)?.distributions[0] || (round.last.slot === slot ? round.last.distributions : null);
    const written = writtenAt(round, slot);
    const rows = probs
      ? probs.ids
          .map((id, i) => ({ id, raw: probs.raw[i], p: probs.p[i] }))
          .filter((row) => row.id !== written)
          .sort((a, b) => b.p - a.p)
          .slice(0, ROWS)
      : [];
    this.token.replaceChildren(
      ...rows.map((row) => h("option", { value: row.id }, `${shorten(visible(row.raw), 14)}  p ${formatProb(row.p)}`)),
    );
    this.token.hidden = this.force.hidden = !rows.length;
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

/** The token that the text went on with below a slot; null where it did not come to that slot. */
function writtenAt(round, slot) {
  const child = round.nodes.find((n) => n.parent === slot && n.fate === "accepted");
  return child ? child.token : round.last.slot === slot ? round.last.token : null;
}
