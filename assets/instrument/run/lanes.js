// The lanes: what each has written by now, every token underlined by what became of it.
//
// Text panes have a fixed height and scroll inside. Tokens are spans made once and hidden until their round has ended
// on the lane's clock, so a lane's text never runs ahead of it.

import { h } from "../base/dom.js";
import { formatFigure, formatProb } from "../base/format.js";
import { isServer, referenceLane, speculates, stateAt } from "../base/store.js";
import { html, render } from "../vendor/lit-html.js";
import { footText, servedText } from "./foot.js";
import { Heartbeat } from "./heartbeat.js";
import { partingBadge, partingOf, partingWords } from "./parting.js";
import { laneSpeed } from "./speed.js";
import { caveatsOf, laneTitle } from "./titles.js";

const PROMPT_SHOWN = 600; // characters of the prompt's end

export class LaneView {
  constructor(lane, select) {
    this.lane = lane;
    this.spans = [];
    this.shown = 0;
    this.text = h("span");
    this.pane = h("div.pane", { tabindex: "0", role: "group" });
    this.showPrompt();
    this.heartbeat = new Heartbeat();
    new ResizeObserver(() => this.toEnd()).observe(this.pane);
    this.root = h("section.card.lane");
    this.pane.addEventListener("click", (event) => {
      const span = event.target.closest("[data-i]");
      if (span) select(this.lane, this.lane.tokens[Number(span.dataset.i)].round);
    });
  }

  /** `longest` is the longest gap of all lanes by `now`. Tokens from `covered` on keep their place but are not told:
   *  a round is shown without its result. */
  paint(store, now, selection, longest, covered) {
    const lane = this.lane;
    const state = stateAt(lane, now);
    const title = laneTitle(lane);
    this.root.classList.toggle("plain", !speculates(lane) && !isServer(lane) && !lane.start?.fork);
    this.pane.setAttribute("aria-label", `Text of the lane ${title}`);
    if (lane.start !== this.start) this.showPrompt();
    const view = html`
      ${head(title, laneSpeed(lane, store, now), caveatsOf(lane), shownParting(lane, referenceLane(store), now))}
      ${this.pane}
      <div class="lane-foot">
        <p class="foot">${isServer(lane) ? servedText(lane, state, now) : footText(lane, state, now)}</p>
        ${this.heartbeat.root}
      </div>
    `;
    render(view, this.root);
    this.make();
    this.reveal(state.tokens);
    this.cover(covered);
    this.heartbeat.paint(lane, now, longest);
    this.mark(selection && selection.lane === lane ? lane.rounds[selection.round] : null);
    this.nameProbabilities();
  }

  /** p of a server's tokens, once it has been computed. */
  nameProbabilities() {
    const { forced } = this.lane;
    if (!forced || this.named === forced) return;
    this.named = forced;
    for (const [i, span] of this.spans.entries())
      span.title = `p ${formatProb(forced.p[i])} under ${forced.target} here`;
  }

  /** The prompt's end, and what was given to a fork: tokens of the lane that it left, and perhaps a forced one. */
  showPrompt() {
    const { start, given = [] } = this.lane;
    this.start = start;
    const { prompt = "", fork, rendered } = start || {};
    const [left, forced] = fork?.forced ? [given.slice(0, -1), given.at(-1)] : [given, ""];
    const shown = prompt.length > PROMPT_SHOWN ? `… ${prompt.slice(-PROMPT_SHOWN)}` : prompt;
    const answer = rendered ? "\n\nanswer: " : ""; // a chat model answers; others go on with the text
    const view = html`<span class="prompt">${shown}</span><span class="turn">${answer}</span
      ><span class="given">${left.join("")}</span
      ><span class="forced" title="forced: chosen by you">${forced}</span>${this.text}`;
    render(view, this.pane);
  }

  make() {
    const fresh = document.createDocumentFragment();
    for (let i = this.spans.length; i < this.lane.tokens.length; i++) {
      const token = this.lane.tokens[i];
      const span = h("span", { class: `t ${token.kind}`, "data-i": i, hidden: true }, token.text);
      this.spans.push(span);
      fresh.append(span);
    }
    if (fresh.childNodes.length) this.text.append(fresh);
  }

  reveal(count) {
    if (count === this.shown) return;
    for (let i = this.shown; i < count; i++) this.spans[i].hidden = false;
    for (let i = count; i < this.shown; i++) this.spans[i].hidden = true;
    this.shown = count;
    this.toEnd();
  }

  /** The newest text is in view: while it is written, at the end, and in a pane of another size. */
  toEnd() {
    this.pane.scrollTop = this.pane.scrollHeight;
  }

  cover(from) {
    const most = Math.min(from, this.spans.length);
    if (most === this.covered && this.spans.length === this.counted) return;
    for (const [i, span] of this.spans.entries()) span.classList.toggle("covered", i >= from);
    const first = this.spans[most];
    if (most !== this.covered && first && !first.hidden)
      this.pane.scrollTop = first.offsetTop - this.pane.clientHeight / 2;
    [this.covered, this.counted] = [most, this.spans.length];
  }

  mark(round) {
    for (const span of this.marked || []) span.classList.remove("sel");
    this.marked = round ? this.spans.slice(round.firstToken, round.tokensAfter) : [];
    for (const span of this.marked) span.classList.add("sel");
  }
}

/** Where a greedy lane wrote another token than plain decoding, once both have shown it. */
function shownParting(lane, plain, now) {
  const shown = plain ? Math.min(stateAt(lane, now).tokens, stateAt(plain, now).tokens) : 0;
  return partingOf(lane, plain, shown);
}

const head = (title, speed, caveats, parting) => html`
  <header class="card-head">
    <h3 class="lane-name">${title}</h3>
    <p class="rate-line"><span class="rate">${formatFigure(speed)}</span><span class="unit"> tokens/s</span></p>
    <p>
      <span class="badge caveat" ?hidden=${!caveats.length}>${caveats.join(" · ")}</span
      ><span class="badge caveat parting" ?hidden=${!parting} title=${parting ? partingWords(parting) : ""}
        >${parting ? partingBadge(parting) : ""}</span
      >
    </p>
  </header>
`;
