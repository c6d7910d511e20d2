// What the page says first: one true sentence and what its speed rests on; and the figures, each with what it is
// divided by.
//
// Pure: a store and a moment of the race clock in, text out. Its ratio is that of the tokens per second that the lanes
// show (speed.js): of whole runs, once there are several, else of the race.

import { counted, formatFigure, formatProb } from "../base/format.js";
import {
  compareTokens,
  draftLane,
  draftTotals,
  isInside,
  ofServers,
  plainLane,
  raceClock,
  stateAt,
  temperatureOf,
} from "../base/store.js";
import { promptWords } from "./foot.js";
import { partingOf } from "./parting.js";
import { serversBasis, serversSentence } from "./served.js";
import { ENOUGH, causeOf, noiseOf, speedup, wholeRuns } from "./speed.js";
import { emulatedOf, lossyBadge } from "./titles.js";

/** The sentence at `now`. `whole` is true once everything recorded has been shown. */
export function sentence(store, now, whole) {
  if (ofServers(store)) return serversSentence(store, now, whole);
  const plain = plainLane(store);
  const draft = draftLane(store);
  const lead = draft || plain;
  if (!lead) return "";
  const state = stateAt(lead, now);
  const end = whole ? ending(store) : "";
  if (!state.rounds && !stateAt(plain || lead, now).rounds) return promptWords(lead, now) + end;
  const did = `${counted(state.tokens, "token")}${whole ? "" : " so far"} in ${counted(state.rounds, "pass", "passes")} of the large model`;
  if (!draft) return `${did}, one for each.${end}`;
  if (!plain) return `${did}.${end}`;
  const other = stateAt(plain, now);
  if (!whole && !state.rounds)
    return `No round has finished yet; plain decoding has ${counted(other.tokens, "token")}.`;
  if (!whole) return `${did}; plain decoding has ${other.tokens}.`;
  const same = other.tokens === state.tokens && !partingOf(draft, plain);
  const words = same ? `plain decoding needed ${other.rounds}` : plainWords(store, other);
  return `${did}; ${words}${faster(store)}${alike(store, same)}.${end}`;
}

/** What the two texts have to do with each other, once both are whole: `same` where they have as many tokens, none of
 *  which differs. */
function alike(store, same) {
  const [draft, plain] = [draftLane(store), plainLane(store)];
  if (!draft.start?.exact || !bothEnded(draft, plain)) return "";
  return same && temperatureOf(draft) === 0 ? ", the same text" : "";
}

/** Plain decoding's text where it has another length or other tokens: both are counted. */
function plainWords(store, other) {
  const parting = partingOf(draftLane(store), plainLane(store));
  const counts = `plain decoding needed ${other.rounds} for its ${counted(other.tokens, "token")}`;
  if (!parting) return counts;
  return `${counts}, which differ from token ${parting.index + 1} on${parting.tie ? " (a tie)" : ""}`;
}

/** The headline's ratio. */
function faster(store) {
  const [draft, plain] = [draftLane(store), plainLane(store)];
  const { ratio } = speedup(draft, plain, raceClock(store));
  return bothEnded(draft, plain) && Number.isFinite(ratio) ? `; ${ratio.toFixed(2)} times as fast` : "";
}

const bothEnded = (...lanes) =>
  lanes.every((lane) => lane.end && lane.end.reason !== "cancelled" && lane.end.reason !== "error");

/** What that speed rests on, in a line. */
export function basisWords(store, now, whole, soloState) {
  if (ofServers(store)) return serversBasis(store, whole);
  const [draft, plain] = [draftLane(store), plainLane(store)];
  if (!draft || !plain || !whole) return "";
  const carried = emulatedOf(draft) || emulatedOf(plain);
  const noise = noiseOf(store, draft, plain);
  const chosen =
    draft.start && draft.start.synthetic
      ? "synthetic: an oracle with a chosen acceptance rate, so tokens per round say nothing about a real drafter"
      : "";
  const lossy =
    draft.start && !draft.start.exact
      ? `${lossyBadge(draft.start)}: the output does not follow the target's distribution`
      : "";
  return [
    noise.length ? `Noise: ${noise.join("; ")} (${causeOf(draft, plain)})` : "",
    chosen,
    lossy,
    carried ? `with an emulated size (${carried}): tokens of these models, costs of those` : "",
    draft.start?.exact && temperatureOf(draft) > 0 ? "both texts are fair draws" : "",
    speedWords(draft, plain, now, soloState),
  ]
    .filter(Boolean)
    .join(" · ");
}

function ending(store) {
  const broken = store.lanes.find((lane) => lane.end && lane.end.reason === "error");
  if (broken) return ` The run ended early: ${broken.end.message || "an error in the engine."}`;
  if (store.lanes.some((lane) => lane.end && lane.end.reason === "cancelled" && !lane.start?.fork))
    return " Stopped here.";
  if (store.lanes.some((lane) => !lane.end && !lane.start?.fork))
    return store.source === "recorded" || store.lanes.some(isInside)
      ? " The recording stops here."
      : " The run stopped here.";
  return "";
}

/** What the ratio is of: which runs, and their times. */
function speedWords(draft, plain, now, soloState) {
  const { source, n, low, high, draftSpeed, plainSpeed } = speedup(draft, plain, now);
  if (!Number.isFinite(draftSpeed) || !Number.isFinite(plainSpeed)) return "";
  const rates = `${formatFigure(draftSpeed)} against ${formatFigure(plainSpeed)} tokens/s`;
  if (source === "runs")
    return `${rates}, prompt included: median of ${n} whole runs [${low.toFixed(2)}, ${high.toFixed(2)}]`;
  const whole = { running: `measuring… (${wholeRuns(draft, plain).n} of ${ENOUGH})`, later: "measured after the race" };
  return `${rates} in this race, prompt included${soloState ? ` · whole runs: ${whole[soloState]}` : ""}`;
}

/** The figures beside it: [{id, value, label, detail, tone}]. */
export function runFigures(store, now, soloState) {
  const [draft, plain] = [draftLane(store), plainLane(store)];
  if (!draft) return [];
  const { ratio } = plain ? speedup(draft, plain, now) : {};
  const known = Number.isFinite(ratio);
  const speed = {
    id: "speed",
    value: known ? `${ratio.toFixed(2)}×` : "–",
    label: "times plain decoding",
    detail: known ? speedWords(draft, plain, now, soloState) : "tokens/s of both lanes, each on its own clock",
    tone: known && ratio > 1 ? "good" : "",
  };
  return [...(plain ? [speed] : []), ...shape(draft, now)];
}

function shape(draft, now) {
  const { rounds, tokens } = stateAt(draft, now);
  const { drafted, accepted } = draftTotals(draft, rounds);
  return [
    {
      id: "tau",
      value: rounds ? (tokens / rounds).toFixed(2) : "–",
      label: "tokens per round",
      detail: `${counted(tokens, "token")} / ${counted(rounds, "round")}, corrections and bonus tokens included`,
    },
    {
      id: "rate",
      value: drafted ? formatProb(accepted / drafted) : "–",
      label: "of draft tokens accepted",
      detail: `${accepted} accepted / ${drafted} drafted, corrections and bonus tokens excluded`,
    },
  ];
}

/** Whether the output equals the target's: {value, label, detail}. */
export function distributionFigure(draft, plain, whole) {
  const exact = draft.start ? draft.start.exact : true;
  const t = temperatureOf(draft);
  if (!exact)
    return {
      value: "lossy",
      label: "different distribution",
      detail: "this rule trades exactness for speed: the output does not follow the target's distribution",
    };
  if (!plain || plain === draft)
    return { value: "one lane", label: "no comparison", detail: "no second lane to compare with" };
  if (t > 0) {
    return {
      value: "same distribution",
      label: "different samples",
      detail: `at temperature ${t} both lanes sample from the target's distribution, each with its own random numbers`,
    };
  }
  if (!whole || !draft.end || !plain.end)
    return { value: "–", label: "tokens equal", detail: "temperature 0: counted once both lanes have ended" };
  const { equal, over, first } = compareTokens(draft, plain);
  const detail =
    first < 0
      ? "temperature 0: both lanes produced the same tokens"
      : `temperature 0; they first differ at token ${first + 1}${gapWords(partingOf(draft, plain))}`;
  return { value: `${equal} of ${over}`, label: "tokens equal", detail };
}

const gapWords = (parting) =>
  parting && Number.isFinite(parting.gap)
    ? `, where the target's top two logits differ by ${formatFigure(parting.gap)}${parting.tie ? ": a tie" : ""}`
    : "";
