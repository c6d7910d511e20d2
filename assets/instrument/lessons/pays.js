// Where drafting pays and where it does not: the same lanes on two texts, side by side, from one recording.

import { h } from "../base/dom.js";
import { formatFigure, formatProb, shorten } from "../base/format.js";
import { costsOf } from "../base/numbers.js";
import { draftTotals, plainLane, speculates } from "../base/store.js";
import { scrollable, table } from "../draw/tables.js";
import { laneTitle } from "../run/titles.js";

/** The store once for each prompt in it, with that prompt's lanes alone. */
export function textsOf(store) {
  const prompts = [...new Set(store.lanes.map((lane) => lane.start.prompt))];
  return prompts.map((prompt) => ({ ...store, lanes: store.lanes.filter((lane) => lane.start.prompt === prompt) }));
}

/** A text by the beginning of its prompt. */
export const textName = ({ lanes }) => `“${shorten(lanes[0].start.prompt.split(/\s+/).join(" "), 34)}”`;

/** [{text, lane, accepted, costs}] of every drafting lane, text by text. */
export const paysOf = (store) =>
  textsOf(store).flatMap((own) =>
    own.lanes.filter(speculates).map((lane) => {
      const { drafted, accepted } = draftTotals(lane, lane.rounds.length);
      return { text: textName(own), lane, accepted: accepted / drafted, costs: costsOf(lane, plainLane(own)) };
    }),
  );

export function paysPicture(store) {
  const rows = paysOf(store).filter(({ costs }) => costs);
  return h(
    "div",
    { class: "worth" },
    scrollable(
      "Where it pays",
      table(
        ["text", "lane", "accepted / drafted", "tokens per round", "c", "× plain"],
        rows.map(({ text, lane, accepted, costs }) => [
          text,
          laneTitle(lane),
          formatProb(accepted),
          formatFigure(costs.tau),
          formatProb(costs.c),
          h("b", { text: `${formatFigure(costs.measured)}×` }),
        ]),
      ),
    ),
    h("p", {
      class: "sum",
      text: "c: median draft forward / median plain round. × plain: tokens per millisecond of whole lanes, prefill excluded, recorded in one race for each text.",
    }),
  );
}
