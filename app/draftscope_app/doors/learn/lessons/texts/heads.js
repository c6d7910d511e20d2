// Lesson: what drafting costs, and what it gains, when the drafter reads the target.

import { counted, formatFigure, formatMs, formatProb, median } from "../../../../base/format.js";
import { costsOf, draftForwards, sum } from "../../../../base/numbers.js";
import { plainLane } from "../../../../base/store.js";
import { textName, textsOf } from "../pays.js";
import { laneTitle } from "../../../../run/titles.js";
import { html } from "../../../../vendor/lit-html.js";
import { byPlace, proposalsOf, proposePicture, worthPicture } from "../propose.js";
import { atStage, drafting, times } from "../telling.js";

const target = ({ lanes }) => lanes[0].start.models[0].name;

const proposal = ({ lane, round }) => ({
  lane,
  round,
  forwards: draftForwards(round).length,
  ms: sum(round.timings.propose),
});

/** A drafter's step, in the first race that it drafts in; `say` of its typical proposal and that race's plain lane. */
function stepOf(races, drafter, say) {
  const race = races.find((candidate) => drafting(candidate, drafter));
  const typical =
    race &&
    proposalsOf(race)
      .map(proposal)
      .find(({ lane }) => lane.start.drafter === drafter);
  if (!typical) return null;
  const act = (host) => {
    host.round.show("tree");
    atStage(host, typical.lane, typical.round, "draft");
  };
  const other = target(race) !== target(races[0]);
  const where = other ? ` This lane drafts for a smaller target, ${target(race)}.` : "";
  return { show: "tree", figure: (_, host) => proposePicture(race, host), act, say: say(typical, race) + where };
}

const cost = ({ round, forwards, ms }) =>
  `${counted(forwards, "forward")} for ${counted(round.drafted, "token")}, ${formatMs(ms)}`;

/** The races of the lesson's own pair: those on its target. */
function ownRaces(store) {
  const races = textsOf(store);
  return races.filter((race) => target(race) === target(races[0]));
}

/** What the heads gained on each text. */
const worths = (store) =>
  html`<div>
    ${ownRaces(store).map(
      (race) =>
        html`<h4>Text: ${textName(race)}</h4>
          ${worthPicture(race)}`,
    )}
  </div>`;

/** What a forward of the heads costs of a plain round, from the cheapest to the dearest. */
function headCosts(race) {
  const costs = proposalsOf(race)
    .filter(({ lane }) => lane.start.drafter !== "draft")
    .map(({ lane }) => costsOf(lane, plainLane(race))?.c)
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  if (!costs.length) return "";
  const range = [...new Set([costs[0], costs[costs.length - 1]].map(formatProb))].join(" to ");
  return ` A head's forward takes ${range} of a plain round here.`;
}

const pacesOf = (race) =>
  proposalsOf(race)
    .map(({ lane }) => ({ lane, costs: costsOf(lane, plainLane(race)) }))
    .filter(({ costs }) => costs)
    .sort((a, b) => b.costs.measured - a.costs.measured)
    .map(({ lane, costs }) => `${formatFigure(costs.measured)}× (${laneTitle(lane)})`);

function steps(whole) {
  const races = textsOf(whole);
  const paces = ownRaces(whole)
    .map((race) => ({ race, speeds: pacesOf(race) }))
    .filter(({ speeds }) => speeds.length);
  const one = ({ rounds }) => median(rounds.map((r) => r.timings.verify));
  return [
    stepOf(
      races,
      "draft",
      (typical, race) =>
        `${counted(proposalsOf(race).length, "drafter")} on one time scale. The [[draft]] model needs ${cost(typical)}, one after the other because each reads the token before it. That is ${times(typical.ms / one(plainLane(race)))} as long as the target takes for one row.`,
    ),
    stepOf(
      races,
      "eagle3",
      (typical) =>
        `EAGLE-3 has no separate model. It is one layer, a [[head]], over [[hidden state|hidden states]] from several depths of the target. It drafts token by token: ${cost(typical)}. Each step reads the token before it.`,
    ),
    stepOf(
      races,
      "medusa",
      (typical) =>
        `Medusa's heads read one [[hidden state]], the one that gave the target's last token, and each predicts one position: ${cost(typical)}. No head knows what the others predicted.`,
    ),
    stepOf(
      races,
      "block",
      (typical) =>
        `A block drafter fills all positions at once, reading the hidden states of the whole text: ${cost(typical)}. Its tokens do not see each other either.`,
    ),
    paces.length && {
      show: "none",
      figure: worths,
      say: `A cheap draft must also be accepted, and that depends on the text. Compared with plain decoding, these lanes ran at ${paces.map(({ race, speeds }) => `${speeds.join(", ")} on ${textName(race)}`).join("; and at ")}.${headCosts(paces[0].race)}`,
    },
  ];
}

export const lesson = {
  title: "Heads",
  about: "what drafting costs, and what it gains, when the drafter reads the target",
  trace: "heads",
  steps,
  last: { show: "none", figure: worths },
  question: () => "Medusa and the block drafter need one forward for any number of tokens. Why not always draft many?",
  answer: (store) => {
    const blind = ["medusa", "block"].map((name) => drafting(store, name)).filter(Boolean);
    const shares = blind
      .map((lane) => ({ lane, places: byPlace(lane) }))
      .filter(({ places }) => places.length > 1)
      .map(({ lane, places }) => {
        const [first, last] = [places[0], places[places.length - 1]];
        return `${laneTitle(lane)}: ${first.accepted} of ${first.reached} at position 1, ${last.accepted} of ${last.reached} at position ${places.length}`;
      });
    const here = shares.length ? ` Accepted here, of those reached: ${shares.join("; ")}.` : "";
    return `Later tokens are predicted without the earlier ones, so they fit many continuations instead of the actual one; and every draft token is a row that the target has to process.${here}`;
  },
  attempt: {
    words: "Let EAGLE-3 draft eight tokens, and see what drafting costs and which tokens are rejected.",
    controls: { drafter: "eagle3", gamma: 8, temperature: 0 },
  },
};
