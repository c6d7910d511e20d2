// Questions to a class about a round of a live run, as its server takes them. null where the round has nothing to ask.

import { formatProb, visible } from "../base/format.js";
import { knownAt } from "../base/stages.js";
import { guessesAt } from "./narrow.js";

const CONTEXT = 90; // characters of the text before a round
const COUNTED = 11; // guesses in a row that have an answer each

/** How many guesses in a row are kept. */
export function survivalQuestion(lane, round) {
  if (!round.drafted || round.cut) return null;
  const guesses = guessesAt(round, knownAt(round, Infinity));
  const last = guesses.at(-1);
  const { accepted } = round;
  const most = Math.min(round.depth, COUNTED);
  return {
    ask: "How many guesses in a row does the target keep?",
    context: contextOf(lane, round),
    options: Array.from({ length: most + 1 }, (_, n) => (n === COUNTED ? `${n} or more` : String(n))),
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
  return {
    ask: `Is the guess ${text} kept?`,
    context: contextOf(lane, round, round.nodes[at]),
    options: ["kept", "refused"],
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

/** The end of the text before a round, and before one of its guesses. */
function contextOf(lane, round, guess) {
  const text = lane.tokens.slice(0, round.firstToken).map((token) => token.text);
  const before = [];
  for (let node = parentOf(round, guess); node; node = parentOf(round, node)) before.unshift(node.raw);
  const shown = [lane.start.prompt, ...text].join("").replace(/\s+/g, " ").slice(-CONTEXT);
  return `… ${shown}${before.map(visible).join("")}`;
}

const parentOf = (round, node) => round.nodes.find(({ id }) => id === node?.parent);
