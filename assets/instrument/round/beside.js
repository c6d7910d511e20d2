// The tree of another lane beside the reader's, at the same place of both texts: for a fork and what it left, or two
// drafters in one run.

import { button, h } from "../base/dom.js";
import { beatOf, knownAt } from "../base/stages.js";
import { speculates } from "../base/store.js";
import { smallButton } from "../base/templates.js";
import { laneTitle } from "../run/titles.js";
import { html, nothing, render } from "../vendor/lit-html.js";
import { TreeView, currentItem, itemWords, itemsOf } from "./tree.js";

const FIRST_NODE = { slot: null, key: null };

/** The lane that `lane` is held against: the one that it left, else the next that drafts; undefined where none does. */
export function otherLane(store, lane) {
  const others = store.lanes.filter((drafting) => drafting !== lane && drafting.start && speculates(drafting));
  return others.find((left) => left.name === lane.start?.fork?.lane) || others[0];
}

/** The round of `other` that writes the token with which round `index` of `lane` begins: {round, words}. Once the texts
 *  have parted it is the round in which they did; without a `round`, `words` say why there is none. */
export function samePlace(lane, index, other) {
  const [here, there] = [lane, other].map(textOf);
  const place = given(lane) + lane.rounds[index].firstToken;
  const most = Math.min(here.length, there.length);
  const parting = here.findIndex((token, i) => i >= most || token !== there[i]);
  const parted = parting >= 0 && parting < most && parting < place;
  const at = parted ? parting : place;
  const round = other.rounds.find((later) => at < given(other) + later.tokensAfter);
  if (at < given(other))
    return { words: `${parted ? "the texts parted" : "this place is"} before token ${given(other) + 1}, its first` };
  if (!round) return { words: `its text ends at token ${there.length}, before this place` };
  const words = parted
    ? `the texts part here, at token ${at + 1}; after it no place is the same`
    : `the same place of the text, token ${at + 1}`;
  return { round, words };
}

/** Tokens that a fork was given, which other rounds wrote. */
const given = (lane) => lane.start?.fork?.token_ids.length || 0;

const textOf = (lane) => [...(lane.start?.fork?.token_ids || []), ...lane.tokens.map((token) => token.id)];

export class BesideView {
  /** `select(lane, round)` makes a lane the reader's. */
  constructor(select, repaint) {
    this.repaint = repaint;
    this.on = false;
    this.chosen = FIRST_NODE;
    this.button = button("Other lane beside", () => this.toggle());
    this.button.title = "The tree of another lane, at the same place of the text (key B)";
    this.go = () => select(this.at.lane, this.at.round.index);
    const open = (slot, key) => {
      this.chosen = { slot, key };
      repaint();
    };
    this.tree = new TreeView({ open, repaint });
    this.root = h("section.card.other-lane", { hidden: true });
  }

  toggle() {
    this.on = !this.on;
    this.repaint();
  }

  /** `known` is what the reader sees of the round: the other shows no more. `tall` is the height of the reader's tree. */
  paint(store, selection, known, narrow, now, tall, colours) {
    const lane = selection && otherLane(store, selection.lane);
    this.button.hidden = !lane;
    this.button.setAttribute("aria-pressed", String(this.on));
    this.root.hidden = !lane || !this.on || Boolean(colours.tall);
    if (this.root.hidden) return;
    const { round, words } = samePlace(selection.lane, selection.round, lane);
    const late = round && round.end > now;
    if (round !== this.at?.round) this.chosen = FIRST_NODE;
    this.at = { lane, round };
    const there = round && !late;
    const seen = there && knownAt(round, known.result ? Infinity : beatOf(round, known.verified ? "verify" : "draft"));
    const line = there && itemWords(currentItem(itemsOf(lane, round, seen), this.chosen));
    const view = html`
      <header class="card-head">
        <div class="head-text">
          <h3>${laneTitle(lane)}${round ? ` · round ${round.index + 1} of ${lane.rounds.length}` : ""}</h3>
          <p class="note" role="status">${words}${late ? ": not written yet at this time" : ""}</p>
        </div>
        <div class="controls">${round ? smallButton("Go there", this.go) : nothing}</div>
      </header>
      ${
        there
          ? html`${this.tree.root}
              <p class="note item-line">${line}</p>`
          : nothing
      }
    `;
    render(view, this.root);
    if (there) this.tree.paint(lane, round, seen, this.chosen, narrow, tall, colours);
  }
}
