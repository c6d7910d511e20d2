// What the page says first: one true sentence and what its speed rests on; and the figures, each with what it is
// divided by.
//
// Pure: a store and a moment of the race clock in, text out. Two different numbers are called speedup here and they are
// never mixed: the *race* (lanes interleaved a round at a time, each on its own clock) and *alone* (whole solo runs).

import { counted, formatFigure, formatMs, formatProb, median } from "../base/format.js";
import { compareTokens, draftLane, draftTotals, plainLane, raceClock, stateAt, temperatureOf } from "../base/store.js";
import { ballastOf, lossyBadge } from "./titles.js";

/** The sentence at `now`. `whole` is true once everything recorded has been shown. */
export function sentence(store, now, whole) {
  const plain = plainLane(store);
  const draft = draftLane(store);
  const lead = draft || plain;
  if (!lead) return "";
  const state = stateAt(lead, now);
  const end = whole ? ending(store) : "";
  if (!state.rounds && !stateAt(plain || lead, now).rounds) return "The prompt has been processed; no token yet." + end;
  const verb = whole ? "produced" : state.rounds === 1 ? "has produced" : "have produced";
  const did = `${counted(state.rounds, "target forward")} ${verb} ${counted(state.tokens, "token")}`;
  if (!draft) return `${did}, one per forward.${end}`;
  if (!plain) return `${did}.${end}`;
  const other = stateAt(plain, now);
  if (!whole && !state.rounds)
    return `No round has finished yet; plain decoding has ${counted(other.tokens, "token")}.`;
  if (!whole) return `${did}; plain decoding has ${other.tokens}.`;
  if (other.tokens === state.tokens) return `${did}; plain decoding needed ${other.rounds}${faster(store)}.${end}`;
  return `${did}; plain decoding produced ${counted(other.tokens, "token")} with ${other.rounds}.${end}`;
}

/** The headline's ratio, of texts of one length: whole runs alone where they were timed, else the race. */
function faster(store) {
  const [draft, plain] = [draftLane(store), plainLane(store)];
  const ratio = draft.solo && plain.solo ? aloneRatio(draft, plain) : raceRatio(draft, plain, raceClock(store));
  const ended = [draft, plain].every(
    (lane) => lane.end && lane.end.reason !== "cancelled" && lane.end.reason !== "error",
  );
  return ended && Number.isFinite(ratio) ? `; ${ratio.toFixed(ratio < 1 ? 2 : 1)} times as fast` : "";
}

/** What that speed rests on, in a line. */
export function basisWords(store, now, whole, soloState) {
  const [draft, plain] = [draftLane(store), plainLane(store)];
  if (!draft || !plain || !whole) return "";
  const carried = ballastOf(draft) || ballastOf(plain);
  const told = [alone(draft, plain, soloState), race(draft, plain, now)].filter(Boolean).map((f) => f.brief);
  const chosen =
    draft.start && draft.start.synthetic
      ? "synthetic: an oracle with a chosen acceptance rate, so tokens per round say nothing about a real drafter"
      : "";
  const lossy =
    draft.start && !draft.start.exact
      ? `${lossyBadge(draft.start)}: the output does not follow the target's distribution`
      : "";
  return [
    chosen,
    lossy,
    carried ? `with ballast (${carried}): tokens of these models, costs of those shapes` : "",
    ...told,
  ]
    .filter(Boolean)
    .join(" · ");
}

const raceRatio = (draft, plain, now) => stateAt(draft, now).perSecond / stateAt(plain, now).perSecond;

const aloneRatio = (draft, plain) =>
  draft.solo.tokens / median(draft.solo.seconds) / (plain.solo.tokens / median(plain.solo.seconds));

function ending(store) {
  const broken = store.lanes.find((lane) => lane.end && lane.end.reason === "error");
  if (broken) return ` The run ended early: ${broken.end.message || "an error in the engine."}`;
  if (store.lanes.some((lane) => lane.end && lane.end.reason === "cancelled" && !lane.start?.fork))
    return " Stopped here.";
  if (store.lanes.some((lane) => !lane.end && !lane.start?.fork))
    return store.source === "recorded" ? " The recording stops here." : " The run stopped here.";
  return "";
}

/** The figures beside it: [{id, value, label, detail, tone}]. */
export function runFigures(store, now, soloState) {
  const plain = plainLane(store);
  const draft = draftLane(store);
  const list = [];
  if (draft && plain) list.push(race(draft, plain, now));
  if (draft && plain) list.push(alone(draft, plain, soloState));
  if (draft) list.push(...shape(draft, now));
  return list.filter(Boolean);
}

function race(draft, plain, now) {
  const a = stateAt(draft, now);
  const b = stateAt(plain, now);
  const ratio = raceRatio(draft, plain, now);
  const known = Number.isFinite(ratio);
  return {
    id: "race",
    value: known ? ratio.toFixed(2) + "×" : "–",
    label: "in the race",
    detail: known
      ? `${formatFigure(a.perSecond)} against ${formatFigure(b.perSecond)} tokens/s, each lane on its own clock, prefill included`
      : "tokens/s of both lanes, each on its own clock",
    brief: known ? `${ratio.toFixed(2)}× in the race, each lane on its own clock` : "",
    tone: known && ratio > 1 ? "good" : "",
  };
}

function alone(draft, plain, state) {
  if (!draft.solo || !plain.solo) {
    const waiting = {
      running: "timing whole solo runs of both lanes, taking turns",
      later: "whole solo runs of both lanes are timed after the race",
    }[state];
    return waiting
      ? {
          id: "solo",
          value: state === "running" ? "…" : "–",
          label: "in solo runs",
          detail: waiting,
          brief: waiting,
          tone: "",
        }
      : null;
  }
  const a = median(draft.solo.seconds);
  const b = median(plain.solo.seconds);
  const ratio = aloneRatio(draft, plain);
  const [n, m] = [draft.solo.seconds.length, plain.solo.seconds.length];
  const runs = n === m ? `${counted(n, "whole run")} each` : `${n} and ${m} whole runs`;
  const same = draft.solo.tokens === plain.solo.tokens;
  const took = same
    ? `${formatMs(1000 * a)} against ${formatMs(1000 * b)} for ${counted(draft.solo.tokens, "token")}`
    : `${formatFigure(draft.solo.tokens / a)} against ${formatFigure(plain.solo.tokens / b)} tokens/s`;
  return {
    id: "solo",
    value: ratio.toFixed(2) + "×",
    label: "in solo runs",
    detail: `median of ${runs}, nothing recorded: ${took}, prefill included`,
    brief: `${ratio.toFixed(2)}× in solo runs: median of ${runs}, ${took}`,
    tone: ratio > 1 ? "good" : "",
  };
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
      : `temperature 0; they first differ at token ${first + 1}${gapAt(draft, first)}`;
  return { value: `${equal} of ${over}`, label: "tokens equal", detail };
}

/** How close the target's two best tokens were where greedy lanes parted: in 16 bits, ties hide in small gaps. */
function gapAt(lane, index) {
  const token = lane.tokens[index];
  const round = token ? lane.rounds[token.round] : null;
  const decision = round ? round.decisions[index - round.firstToken] || round.last : null;
  return decision && Number.isFinite(decision.gap)
    ? `, where the target's top two logits differ by ${formatFigure(decision.gap)}`
    : "";
}
