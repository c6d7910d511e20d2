// Servers of other programs: their figures, and what the page says of them first. Pure.

import { counted, formatFigure, median } from "../base/format.js";
import { isFinished, isInside, stateAt } from "../base/store.js";
import { APART } from "./speed.js";

/** Tokens a second of a server's counted answers: {median, low, high, n}; null without one. */
export function speedOf(lane) {
  const { served } = lane;
  if (!served || !served.seconds.length) return null;
  const speeds = served.seconds.map((seconds, i) => served.tokens[i] / seconds).filter(Number.isFinite);
  if (!speeds.length) return null;
  return { median: median(speeds), low: Math.min(...speeds), high: Math.max(...speeds), n: speeds.length };
}

/** How many times as fast as the first server, answer by answer; null for the first one. */
export function timesOf(lane, first) {
  if (lane === first || !lane.served || !first.served) return null;
  const [answers, its] = [lane.served, first.served];
  const both = Math.min(answers.seconds.length, its.seconds.length);
  const ratios = Array.from(
    { length: both },
    (_, i) => answers.tokens[i] / answers.seconds[i] / (its.tokens[i] / its.seconds[i]),
  );
  const known = ratios.filter(Number.isFinite);
  return known.length
    ? { median: median(known), low: Math.min(...known), high: Math.max(...known), n: known.length }
    : null;
}

const pieceOf = (lane) => (isInside(lane) ? "round" : "burst");

const failed = (lane) => lane.end?.reason === "error";

export function serversSentence(store, now, whole) {
  const dead = store.lanes.filter(failed);
  const lost = dead.length ? ` ${dead.map((lane) => lane.name).join(", ")} failed; see below.` : "";
  const living = store.lanes.filter((lane) => !failed(lane));
  if (!living.length) return `No server answered.${lost}`;
  const states = living.map((lane) => ({ lane, ...stateAt(lane, now) }));
  if (!states.some(({ tokens }) => tokens))
    return `${isFinished(store) ? "Stopped before there was a token." : "The servers are warming up; no token yet."}${lost}`;
  const wrote = states
    .filter(({ tokens }) => tokens)
    .map(({ lane, tokens, rounds }, i, [first]) => {
      const pieces = counted(rounds, pieceOf(lane));
      if (!i) return `${lane.name} wrote ${counted(tokens, "token")} in ${pieces}`;
      return `${lane.name} ${tokens} in ${pieceOf(lane) === pieceOf(first.lane) ? rounds : pieces}`;
    });
  const [first] = store.lanes;
  const ratios =
    whole && isFinished(store) ? living.map((lane) => [lane, timesOf(lane, first)]).filter(([, r]) => r) : [];
  const said = ratios.map(([lane, times]) => `${lane.name} is ${fasterWords(times, first.name)}`);
  return `${[...wrote].join(", ")}${said.length ? `; ${said.join(", ")}` : ""}.${lost}`;
}

/** A range where the answers disagree about who is faster, else the median. */
function fasterWords({ median: ratio, low, high }, other) {
  const noisy = low < 1 && high > 1 && high / low - 1 > APART;
  return noisy
    ? `${low.toFixed(2)} to ${high.toFixed(2)} times as fast as ${other}, too noisy to tell`
    : `${ratio.toFixed(2)} times as fast as ${other}`;
}

/** What that rests on. */
export function serversBasis(store, whole) {
  const together = store.lanes.some(isInside); // a server's own rounds beside the bursts of another
  if (!whole)
    return `The servers answer ${together ? "at the same moment, and on one machine they share its cores" : "in turns"}; each lane's clock starts when its request is sent.`;
  const [first] = store.lanes;
  const speeds = store.lanes.map((lane) => [lane, speedOf(lane)]).filter(([, speed]) => speed);
  if (!speeds.length) return "";
  const words = speeds.map(([lane, { median: speed }]) => `${lane.name} ${formatFigure(speed)}`).join(", ");
  const { n } = speeds[0][1];
  const ranges = store.lanes.map((lane) => timesOf(lane, first)).filter((ratio) => ratio && ratio.n > 1);
  const range = ranges.length === 1 ? ` · ratio ${ranges[0].low.toFixed(2)} to ${ranges[0].high.toFixed(2)}` : "";
  return `tokens/s ${words}: median of ${counted(n, "answer")} each, reading the prompt included, seen from here${together ? ", all at the same moment" : ""}${range}`;
}
