// The lanes: what each has written by now, every token underlined by what became of it.
//
// Lanes stand side by side, with text panes of one width and height, so that equal texts break their lines alike. Tokens
// are spans made once and hidden until their round has ended on the lane's clock, so a lane's text never runs ahead.

import { copied } from "../base/copied.js";
import { h } from "../base/dom.js";
import { FATES } from "../base/fates.js";
import { formatFigure, formatProb } from "../base/format.js";
import { say } from "../base/host.js";
import { isServer, referenceLane, speculates, stateAt } from "../base/store.js";
import { explainedWords } from "../base/symbols.js";
import { html, render } from "../vendor/lit-html.js";
import { footText, readShare, servedText } from "./foot.js";
import { Heartbeat } from "./heartbeat.js";
import { equalWords, partingBadge, partingOf, partingWords } from "./parting.js";
import { laneSpeed } from "./speed.js";
import { caveatsOf, laneTitle } from "./titles.js";

const PROMPT_SHOWN = 600; // characters of the prompt's end
const LINE = 23; // pixels, as style.css has it

export class LaneView {
  /** `select(lane, round)` and `request()`, which paints anew. */
  constructor(lane, select, request) {
    this.lane = lane;
    this.request = request;
    this.spans = [];
    this.shown = 0;
    this.text = h("span");
    this.pane = h("div.pane", { tabindex: "0", role: "group", dir: "auto" });
    this.showPrompt();
    this.heartbeat = new Heartbeat();
    new ResizeObserver(() => this.toEnd()).observe(this.pane);
    this.pane.addEventListener("scrollend", () => this.scrollTo(this.pane.scrollTop));
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
    const foot = isServer(lane) ? servedText(lane, state, now) : footText(lane, state, now);
    const reading = readShare(lane, now);
    this.root.classList.toggle("plain", !speculates(lane) && !isServer(lane) && !lane.start?.fork);
    this.pane.setAttribute("aria-label", `Text of the lane ${title}`);
    if (lane.start !== this.start) this.showPrompt();
    const view = html`
      <header class="lane-head">
        <h3 class="lane-name" title=${title}>${title}</h3>
        <p class="lane-badges">${badges(caveatsOf(lane), comparison(lane, referenceLane(store), now))}</p>
        <p class="rate-line">
          <span class="rate">${formatFigure(laneSpeed(lane, store, now))}</span><span class="unit"> tokens/s</span>
        </p>
        ${this.copyButton(title)}
      </header>
      ${this.pane}
      <div class="lane-foot">
        <p class="foot">${foot}</p>
        ${reading === null ? this.heartbeat.root : readBar(reading)}
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

  /** The text that is shown goes to the clipboard; its button says so until the pointer leaves it. */
  copyButton(title) {
    const copy = async () => {
      this.copied = await copied(
        this.spans
          .slice(0, this.shown)
          .map((span) => span.textContent)
          .join(""),
      );
      if (this.copied) this.request();
      else say("This page cannot use the clipboard; mark the text and copy it.");
    };
    const left = () => {
      this.copied = false;
    };
    return html`<button
      class="small copy"
      type="button"
      aria-label=${`${this.copied ? "Copied" : "Copy"} the text of ${title}`}
      @click=${copy}
      @pointerleave=${left}
      @blur=${left}
    >
      ${this.copied ? "Copied" : "Copy"}
    </button>`;
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

  /** By whole lines: the first one is never cut. */
  scrollTo(top) {
    const whole = Math.round(top / LINE) * LINE;
    if (this.pane.scrollTop !== whole) this.pane.scrollTop = whole;
  }

  cover(from) {
    const most = Math.min(from, this.spans.length);
    if (most === this.covered && this.spans.length === this.counted) return;
    for (const [i, span] of this.spans.entries()) span.classList.toggle("covered", i >= from);
    const first = this.spans[most];
    if (most !== this.covered && first && !first.hidden) this.scrollTo(first.offsetTop - this.pane.clientHeight / 2);
    [this.covered, this.counted] = [most, this.spans.length];
  }

  /** The tokens of the round that is looked at; of a text that is not written any more they come into view. */
  mark(round) {
    const marked = round ? this.spans.slice(round.firstToken, round.tokensAfter) : [];
    const moved = marked[0] !== this.marked?.[0];
    for (const span of this.marked || []) span.classList.remove("sel");
    this.marked = marked;
    for (const span of marked) span.classList.add("sel");
    if (moved && marked.length && this.shown === this.spans.length && this.lane.end) this.toView(marked[0]);
  }

  toView(span) {
    const { offsetTop } = span;
    const { scrollTop, clientHeight } = this.pane;
    if (offsetTop < scrollTop) this.scrollTo(offsetTop - LINE);
    else if (offsetTop + LINE > scrollTop + clientHeight) this.scrollTo(offsetTop + 2 * LINE - clientHeight);
  }
}

/** A greedy lane beside plain decoding, as far as both have been shown: equal so far, or where they part. */
function comparison(lane, plain, now) {
  if (!plain) return {};
  const tokens = [lane, plain].map((either) => stateAt(either, now).tokens);
  const shown = Math.min(...tokens);
  const ended = [lane, plain].every((either, i) => either.end && tokens[i] === either.tokens.length);
  return { parting: partingOf(lane, plain, shown), equal: equalWords(lane, plain, shown, ended) };
}

const badges = (caveats, { parting, equal }) => html`
  <span class="badge caveat" ?hidden=${!caveats.length}>${caveats.join(" · ")}</span
  ><span class="badge caveat parting" ?hidden=${!parting} title=${parting ? partingWords(parting) : ""}
    >${parting ? partingBadge(parting) : ""}</span
  ><span class="badge equal" ?hidden=${!equal}>${equal}</span>
`;

const readBar = (share) =>
  html`<progress class="read-bar" max="1" .value=${share} aria-label="Reading the prompt"></progress>`;

/** What the lines under the text say. */
export const textLegend = () =>
  ["accepted", "correction", "bonus"].map(
    (fate) =>
      html`<span class="key"
        ><span class="glyph ${fate}" aria-hidden="true">${FATES[fate].glyph}</span>
        <span class="under ${fate}">${explainedWords(FATES[fate].word)}</span></span
      >`,
  );
