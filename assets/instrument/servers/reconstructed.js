// A burst of a server as the round that it was, if the server drafts with the model that is loaded here: each token's p
// and q. Which token was rejected, and the uniforms, are not known.

import { h, setText } from "../base/dom.js";
import { counted, formatProb, visible } from "../base/format.js";
import { isInside } from "../base/store.js";
import { scrollable, table } from "../draw/tables.js";

export class ReconstructedView {
  constructor() {
    this.title = h("h3");
    this.badge = h("span.badge.caveat", "reconstructed");
    this.what = h("p.note");
    this.table = scrollable("Tokens of this burst");
    const head = h("div.head-text", this.title, this.what);
    this.root = h(
      "section.card.reconstructed",
      { hidden: true },
      h("header.card-head.wrap", head, this.badge),
      this.table,
    );
  }

  paint(selection) {
    const lane = selection?.lane;
    const round = lane?.forced && !isInside(lane) && lane.rounds[selection.round];
    this.root.hidden = !round;
    if (!round) return;
    const stamp = `${lane.name}/${lane.start.run}/${round.index}/${Boolean(lane.drafted)}`;
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.badge.hidden = !lane.drafted;
    setText(
      this.title,
      `${lane.name}, burst ${round.index + 1} of ${lane.rounds.length}: ${counted(round.emitted.length, "token")}`,
    );
    setText(this.what, whatWords(lane, round));
    const heads = ["token", "p", ...(lane.drafted ? ["q", "min(1, p/q)", "it was"] : [])];
    this.table.replaceChildren(
      table(
        heads,
        round.emitted.map((_, i) => row(lane, round, i)),
      ),
    );
  }
}

function whatWords(lane, round) {
  const p = `p: the token's probability under ${lane.forced.target}, loaded here, by teacher forcing`;
  if (!lane.drafted) return `${p}.`;
  const rest = round.emitted.length > 1 ? "the last one is the target's own" : "nothing of its draft was accepted";
  return `${p}; q: under ${lane.drafted.draft}. If the server drafts with that model, all but the last were drafted and accepted; ${rest}. The rejected token and the uniforms are not known.`;
}

function row(lane, round, i) {
  const at = round.firstToken + i;
  const p = lane.forced.p[at];
  const cells = [formatProb(p)];
  if (lane.drafted) {
    const q = lane.drafted.q[at];
    const drafted = i < round.emitted.length - 1;
    cells.push(
      formatProb(q),
      drafted ? formatProb(q > 0 ? Math.min(1, p / q) : 1) : "–",
      drafted ? "drafted, accepted" : "the target's own token",
    );
  }
  const shown = round.emitted_raw[i] || lane.tokens[at].text;
  return [h("code", visible(shown)), ...cells];
}
