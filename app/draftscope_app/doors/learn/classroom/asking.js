// Questions to a class about a live run, as its server takes them. null where the run has nothing to ask.

import { counted, formatFigure, formatMs, formatProb, median, visible } from "../../../base/format.js";
import { gapsOf } from "../../../base/numbers.js";
import { knownAt } from "../../../base/stages.js";
import { isServer, raceClock, speculates } from "../../../base/store.js";
import { speedOf } from "../../../run/served.js";
import { laneSpeed } from "../../../run/speed.js";
import { laneTitle } from "../../../run/titles.js";
import { guessesAt } from "./narrow.js";

const CONTEXT = 90; // characters of the text before a round
const COUNTED = 11; // guesses in a row that have an answer each
const PLACES = 4; // that a question about the longest wait offers
const JITTER = 1.5; // of the median: a wait that readers notice
const MOST = 12; // options of a question

/** A bar for each option, as long as its quantity beside the largest one: what the reveal shows of it. */
function barsOf(options, quantities, values) {
  const most = Math.max(...quantities, 1e-12);
  return options.map((name, i) => ({
    name,
    value: values[i],
    part: Math.max(0, quantities[i] / most),
  }));
}

/** Everything that can be asked about the run, and about the round and the guess that are shown: `at`, or null. */
export function questionsOf(store, at) {
  const round = at?.lane.rounds[at.round];
  const ofRound = round ? [survivalQuestion(at.lane, round), verdictQuestion(at.lane, round, at.key)] : [];
  return [...ofRound, fasterQuestion(store), at ? gapQuestion(at.lane) : null].filter(Boolean);
}

/** How many guesses in a row are kept. */
export function survivalQuestion(lane, round) {
  if (!round.drafted || round.cut) return null;
  const guesses = guessesAt(round, knownAt(round, Infinity));
  const last = guesses.at(-1);
  const { accepted } = round;
  const most = Math.min(round.depth, COUNTED);
  const options = Array.from({ length: most + 1 }, (_, n) => (n === COUNTED ? `${n} or more` : String(n)));
  const alike = lane.rounds.filter(
    ({ cut, depth, drafted }) => !cut && depth === round.depth && drafted === round.drafted,
  );
  const times = options.map((_, n) => alike.filter((other) => Math.min(other.accepted, most) === n).length);
  return {
    ask: "How many guesses in a row does the target keep?",
    context: contextOf(lane, round),
    options,
    bars: barsOf(
      options,
      times,
      times.map((n) => `${n} of ${counted(alike.length, "round")}`),
    ),
    truth: Math.min(accepted, most),
    said: `${accepted} of ${round.drafted} ${accepted === 1 ? "was" : "were"} kept, and the target added ${last.text}, its ${last.fate}. ${round.emitted.length} tokens for one pass of the target.`,
    guesses,
  };
}

/** Whether the guess with this id is kept: p and q, the ratio, then u, as hints. */
export function verdictQuestion(lane, round, id) {
  const decision = round.decisions.find(({ children }) => children.some(({ node }) => node === id));
  const child = decision?.children.find(({ node }) => node === id);
  if (!["token", "rrsw"].includes(decision?.rule) || !(child.q > 0) || !Number.isFinite(child.uniform)) return null;
  const at = round.nodes.findIndex((node) => node.id === id);
  const text = visible(round.nodes[at].raw);
  const [p, q, ratio, u] = [child.p, child.q, child.threshold, child.uniform].map(formatProb);
  const fate = child.passed ? "kept" : "refused";
  const chances = [child.threshold, 1 - child.threshold];
  const options = ["kept", "refused"];
  return {
    ask: `Is the guess ${text} kept?`,
    context: contextOf(lane, round, round.nodes[at]),
    options,
    bars: barsOf(
      options,
      chances,
      chances.map((chance) => `probability ${formatProb(chance)}`),
    ),
    truth: child.passed ? 0 : 1,
    said: `The random number u = ${u} is ${child.passed ? "below" : "not below"} min(1, p/q) = ${ratio}, so the guess was ${fate}.`,
    guesses: [{ ...guessesAt(round, knownAt(round, Infinity))[at], parent: -1 }],
    hints: [
      `The draft gives it q = ${q}, the target p = ${p}.`,
      `It is kept if a random number u is below min(1, p/q) = ${ratio}.`,
      `The random number is u = ${u}.`,
    ],
  };
}

/** Which of the lanes writes faster, by the speeds that the page shows: each with a drafter of its own, or with none. */
export function fasterQuestion(store) {
  const written = ({ end, start, rounds }) => rounds.length && /^(eos|stop|length)$/.test(end?.reason) && !start.fork;
  const lanes = store.lanes.filter(written).slice(0, MOST);
  const names = lanes.map(laneTitle);
  if (lanes.length < 2 || new Set(names).size < names.length) return null;
  const speeds = lanes.map((lane) => speedOf(lane)?.median ?? laneSpeed(lane, store, raceClock(store)));
  const first = speeds.indexOf(Math.max(...speeds));
  return {
    ask: "Which of these writes most tokens a second here?",
    context: contextOf(lanes[0], lanes[0].rounds[0]),
    options: names,
    bars: barsOf(
      names,
      speeds,
      speeds.map((speed) => `${formatFigure(speed)} tokens/s`),
    ),
    truth: first,
    said: whyFaster(lanes, names, speeds, first),
  };
}

const perRound = ({ rounds }) => rounds.reduce((all, { emitted }) => all + emitted.length, 0) / rounds.length;
const roundMs = ({ rounds }) => median(rounds.map(({ start, end }) => end - start));

/** Tokens a round against what a round costs, where one of the lanes is plain; else tokens a round alone. */
function whyFaster(lanes, names, speeds, first) {
  if (lanes.some(isServer)) return "Counted from each request to its last token.";
  const plain = lanes.findIndex((lane) => !speculates(lane));
  const best = speeds.reduce((at, speed, i) => (i !== plain && (at < 0 || speed > speeds[at]) ? i : at), -1);
  const gives = `${names[best]}: a round gives ${formatFigure(perRound(lanes[best]))} tokens`;
  if (plain < 0) return `${gives}. The prompt is included.`;
  const cost = formatFigure(roundMs(lanes[best]) / roundMs(lanes[plain]));
  const so = best === first ? "more than" : "no more than";
  return `${gives} and takes ${cost} times as long as a plain one. Guesses that are kept save ${so} guessing costs.`;
}

/** Which tokens a reader waits longest for, where a wait stands out: the longest one beside ordinary ones. */
export function gapQuestion(lane) {
  const gaps = gapsOf(lane, lane.rounds.length);
  const usual = median(gaps);
  const longest = gaps.indexOf(Math.max(...gaps));
  if (!lane.end || gaps.length < 2 * PLACES || gaps[longest] < JITTER * usual) return null;
  const textOf = (i) => visible(lane.rounds[i + 1].emitted_raw.join(""));
  const near = gaps.map((_, i) => i).sort((a, b) => Math.abs(gaps[a] - usual) - Math.abs(gaps[b] - usual));
  const places = [longest];
  for (const i of near)
    if (places.length < PLACES && places.every((other) => textOf(other) !== textOf(i))) places.push(i);
  if (places.length < 2) return null;
  places.sort((a, b) => a - b);
  const options = places.map(textOf);
  const waits = places.map((i) => gaps[i]);
  return {
    ask: "Tokens arrive in bursts. Which of these bursts does a reader wait for longest?",
    context: contextOf(lane, lane.rounds[places.at(-1) + 1]),
    options,
    bars: barsOf(options, waits, waits.map(formatMs)),
    truth: places.indexOf(longest),
    said: `The median of all ${gaps.length} waits is ${formatMs(usual)}.`,
  };
}

/** The end of the text before a round, and before one of its guesses. */
function contextOf(lane, round, guess) {
  const text = lane.tokens.slice(0, round.firstToken).map((token) => token.text);
  const before = [];
  for (let node = parentOf(round, guess); node; node = parentOf(round, node)) before.unshift(node.raw);
  const answers = round.index > 0 && lane.start.rendered; // a question; else the text itself goes on
  const begun = answers ? `${lane.start.prompt} → ` : lane.start.prompt;
  const words = [begun, ...text].join("").replace(/\s+/g, " ").trim();
  const end = words.slice(-CONTEXT);
  const shown = words === end ? words : `… ${end.slice(end.indexOf(" ") + 1)}`;
  return `${shown}${before.map(visible).join("")}`;
}

const parentOf = (round, node) => round.nodes.find(({ id }) => id === node?.parent);
