// The cards of tasks: what others put into the instrument. README.md beside this folder says what a card is.

import { given } from "../base/given.js";

export class Cards {
  /** `page` is the element, which cards are made for. */
  constructor(page) {
    this.all = given.cards.map((card) => ({ ...card, view: card.make(page) }));
  }

  /** What a task has made, by the name of its folder; undefined without such a task. */
  view(name) {
    return this.all.find((card) => card.name === name)?.view;
  }

  /** The cards of one area, in order. */
  in(area) {
    return this.all.filter((card) => card.area === area);
  }

  /** Those that stand behind a door. */
  behind(door) {
    return this.in("door").filter((card) => card.door === door);
  }

  /** Calls `what` of every view that has it; the answers of those that gave one. */
  tell(what, ...values) {
    return this.all.map(({ view }) => view[what]?.(...values)).filter((answer) => answer !== undefined);
  }

  /** Something that a card has asked for goes on. */
  get running() {
    return this.all.some(({ view }) => view.running);
  }

  /** A key -> what it does. */
  get keys() {
    const keys = this.all.flatMap(({ view }) => Object.entries(view.keys || {}));
    return Object.fromEntries(keys);
  }

  /** Hands the parts of a delta to the cards that hear them. The first card whose answer goes on from before a reload. */
  hear(delta) {
    const heard = this.all.filter((card) => card.hears && delta[card.hears]);
    return heard.filter((card) => card.view.take(delta[card.hears])).at(0);
  }

  /** The card whose own recorded run a delta brings, if it does. */
  fedBy(delta) {
    return this.all.find((card) => card.feeds && delta[card.feeds]);
  }
}

/** The style sheets of all cards. */
export const cardSheets = () => given.cards.map((card) => card.sheet).filter(Boolean);
