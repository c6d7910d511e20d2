// A burst of a server as the round that it was, if the server drafts with the model that is loaded here: each token's p
// and q. Which token was rejected, and the uniforms, are not known.

import { h } from "../base/dom.js";
import { counted, formatProb, visible } from "../base/format.js";
import { isInside } from "../base/store.js";
import { acceptProbability } from "../decision/sampled-rules.js";
import { scrollable, table } from "../draw/tables.js";
import { html, nothing, render } from "../vendor/lit-html.js";

export class ReconstructedView {
  constructor() {
    this.root = h("section.card.reconstructed", { hidden: true });
  }

  paint(selection) {
    const lane = selection?.lane;
    const round = lane?.forced && !isInside(lane) && lane.rounds[selection.round];
    this.root.hidden = !round;
    if (round) render(view(lane, round), this.root);
  }
}

function view(lane, round) {
  const heads = ["token", "p", ...(lane.drafted ? ["q", "min(1, p/q)", "it was"] : [])];
  const rows = round.emitted.map((_, i) => row(lane, round, i));
  return html`
    <header class="card-head wrap">
      <div class="head-text">
        <h3>
          ${lane.name}, burst ${round.index + 1} of ${lane.rounds.length}: ${counted(round.emitted.length, "token")}
        </h3>
        <p class="note">${whatWords(lane, round)}</p>
      </div>
      ${lane.drafted ? html`<span class="badge caveat">reconstructed</span>` : nothing}
    </header>
    ${scrollable("Tokens of this burst", table(heads, rows))}
  `;
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
      drafted ? formatProb(q > 0 ? acceptProbability(p, q) : 1) : "–",
      drafted ? "drafted, accepted" : "the target's own token",
    );
  }
  const shown = round.emitted_raw[i] || lane.tokens[at].text;
  return [html`<code>${visible(shown)}</code>`, ...cells];
}
