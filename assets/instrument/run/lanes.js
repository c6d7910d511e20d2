// The lanes: what each has written by now, every token underlined by what became of it.
//
// Text panes have a fixed height and scroll inside. Tokens are spans made once and hidden until their round has ended
// on the lane's clock, so a lane's text never runs ahead of it.

import { h, setText } from "../base/dom.js";
import { formatFigure, formatProb } from "../base/format.js";
import { isServer, speculates, stateAt } from "../base/store.js";
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
    this.name = h("h3.lane-name");
    this.rate = h("span.rate");
    this.caveats = h("span.badge.caveat", { hidden: true });
    this.parting = h("span.badge.caveat.parting", { hidden: true });
    this.prompt = h("span.prompt");
    this.turn = h("span.turn", { hidden: true }, "\n\nanswer: ");
    this.given = h("span.given");
    this.forced = h("span.forced", { title: "forced: chosen by you" });
    this.text = h("span");
    this.pane = h(
      "div.pane",
      { tabindex: "0", role: "group" },
      this.prompt,
      this.turn,
      this.given,
      this.forced,
      this.text,
    );
    this.heartbeat = new Heartbeat();
    this.foot = h("p.foot");
    new ResizeObserver(() => this.toEnd()).observe(this.pane);
    this.root = h(
      "section.card.lane",
      h(
        "header.card-head",
        this.name,
        h("p.rate-line", this.rate, h("span.unit", " tokens/s")),
        h("p", this.caveats, this.parting),
      ),
      this.pane,
      h("div.lane-foot", this.foot, this.heartbeat.root),
    );
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
    setText(this.name, title);
    this.root.classList.toggle("plain", !speculates(lane) && !isServer(lane) && !lane.start?.fork);
    this.pane.setAttribute("aria-label", `Text of the lane ${title}`);
    if (lane.start && !this.prompt.textContent) this.showPrompt(lane.start);
    this.make();
    this.reveal(state.tokens);
    this.cover(covered);
    this.heartbeat.paint(lane, now, longest);
    this.mark(selection && selection.lane === lane ? lane.rounds[selection.round] : null);
    setText(this.rate, formatFigure(laneSpeed(lane, store, now)));
    const caveats = caveatsOf(lane);
    this.caveats.hidden = !caveats.length;
    setText(this.caveats, caveats.join(" · "));
    setText(this.foot, isServer(lane) ? servedText(lane, state, now) : footText(lane, state, now));
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

  /** The badge of a greedy lane that writes other tokens than plain decoding, once both have shown them. */
  compare(plain, now) {
    const shown = plain ? Math.min(stateAt(this.lane, now).tokens, stateAt(plain, now).tokens) : 0;
    const parting = partingOf(this.lane, plain, shown);
    this.parting.hidden = !parting;
    setText(this.parting, parting ? partingBadge(parting) : "");
    this.parting.title = parting ? partingWords(parting) : "";
  }

  /** The prompt's end, and what was given to a fork: tokens of the lane that it left, and perhaps a forced one. */
  showPrompt({ prompt, fork, rendered }) {
    this.turn.hidden = !rendered; // a chat model answers; others go on with the text
    const given = this.lane.given;
    setText(this.given, (fork && fork.forced ? given.slice(0, -1) : given).join(""));
    setText(this.forced, fork && fork.forced ? given[given.length - 1] : "");
    const cut = prompt.length > PROMPT_SHOWN;
    this.prompt.textContent = cut ? "… " + prompt.slice(-PROMPT_SHOWN) : prompt;
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
