// A card that a test adds: how many drafted tokens were in vain so far.

import { h, setText } from "../../../base/dom.js";
import { draftLane, draftTotals, stateAt } from "../../../base/store.js";
import sheet from "./card.css" with { type: "css" };

class Wasted {
  constructor() {
    this.words = h("p.wasted-words");
    this.root = h("section.card.wasted", { "aria-label": "Wasted so far" }, this.words);
  }

  paint({ store, now }) {
    const lane = draftLane(store);
    const { drafted, accepted } = lane ? draftTotals(lane, stateAt(lane, now).rounds) : { drafted: 0, accepted: 0 };
    setText(this.words, `${drafted - accepted} of ${drafted} drafted tokens were in vain`);
  }
}

export const card = { area: "run", scenes: ["race"], lesson: "wasted", sheet, make: () => new Wasted() };
