// Where drafting pays and where it does not: the same lanes on two texts, and the same text with other models, side by
// side, from one recording.

import { formatFigure, formatMs, formatProb, shorten } from "../../../base/format.js";
import { costsOf } from "../../../base/numbers.js";
import { draftLane, draftTotals, plainLane, speculates } from "../../../base/store.js";
import { scrollable, table } from "../../../draw/tables.js";
import { laneTitle } from "../../../run/titles.js";
import { html } from "../../../vendor/lit-html.js";

/** What a race was of: its prompt, its target, and how the target's weights are held. */
const raceOf = ({ start }) => JSON.stringify([start.prompt, start.models[0].name, start.models[0].weights]);

/** The store once for each race in it, with that race's lanes alone. */
export function textsOf(store) {
  const races = [...new Set(store.lanes.map(raceOf))];
  return races.map((race) => ({ ...store, lanes: store.lanes.filter((lane) => raceOf(lane) === race) }));
}

/** A text by the beginning of its prompt. */
export const textName = ({ lanes }) => `“${shorten(lanes[0].start.prompt.split(/\s+/).join(" "), 34)}”`;

/** [{text, lane, accepted, costs}] of every drafting lane of these races, one race after the other. */
export const paysOf = (races) =>
  races.flatMap((race) =>
    race.lanes.filter(speculates).map((lane) => {
      const { drafted, accepted } = draftTotals(lane, lane.rounds.length);
      return { text: textName(race), lane, accepted: accepted / drafted, costs: costsOf(lane, plainLane(race)) };
    }),
  );

const HEADS = ["lane", "accepted / drafted", "tokens per round", "plain round", "c", "× plain"];
const COSTS =
  "c: median draft step / median plain round. × plain: tokens per millisecond of whole lanes, without reading the prompt, recorded in one race for each row's text and target.";
/** A table of the drafting lanes of these races; `first` names a race in its first column. */
export function paysPicture(races, [heading, nameOf] = ["text", textName]) {
  const cells =
    (race) =>
    ({ lane, accepted, costs }) => [
      nameOf(race),
      laneTitle(lane),
      formatProb(accepted),
      formatFigure(costs.tau),
      formatMs(costs.one),
      formatProb(costs.c),
      html`<b>${formatFigure(costs.measured)}×</b>`,
    ];
  const rows = races.flatMap((race) =>
    paysOf([race])
      .filter(({ costs }) => costs)
      .map(cells(race)),
  );
  return html`<div class="worth">
    ${scrollable("Where it pays", table([heading, ...HEADS], rows))}
    <p class="sum">${COSTS}</p>
  </div>`;
}

/** The models of a race's drafting lane, and how the target's weights are held. */
export function modelsOf(race) {
  const { models } = draftLane(race).start;
  return [models.map(({ name }) => name).join(" + "), models[0].weights].filter(Boolean).join(", ");
}

/** These races side by side, each by its models; of a race only the lanes of `drafters`. */
export function modelsPicture(races, drafters) {
  const kept = races.map((race) => ({
    ...race,
    lanes: race.lanes.filter(({ start }) => drafters.includes(start.drafter)),
  }));
  return paysPicture(kept, ["models", modelsOf]);
}
