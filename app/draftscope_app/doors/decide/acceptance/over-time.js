// Acceptance over the rounds of a text: in windows, after a kept and after a refused guess, by length of a draft. Pure.
//
// engine/draftscope/log/over_time.py and alarm.py say the same of a log; a test holds both to one table of cases. Of a
// round they read `depth` (levels that were drafted), `drafted` and `accepted`.

import { sum } from "../../../base/numbers.js";

const WINDOWS = 24;
const FEW = 20; // guesses, below which nothing is said about dependence
const Z = 3; // standard errors apart: by chance in one text of 370
const ENOUGH = 200; // drafted tokens, below which no alarm is raised
const LAST = 2000; // that are looked back at
const NOTHING = 0.02; // share that was kept
const ALL = 0.98;

/** At most `most` windows of as many rounds each; the last has what is left. */
export function windows(rounds, most = WINDOWS) {
  const size = Math.max(1, Math.ceil(rounds.length / most));
  const count = Math.ceil(rounds.length / size);
  return Array.from({ length: count }, (_, i) => {
    const part = rounds.slice(i * size, (i + 1) * size);
    const [drafted, accepted] = ["drafted", "accepted"].map((name) => sum(part.map((round) => round[name])));
    return { first: i * size, rounds: part.length, drafted, accepted };
  });
}

/** Every guess that was judged, in order: kept or refused. In a tree, a depth is a guess. */
const guesses = (rounds) =>
  rounds.flatMap(({ accepted, depth }) => [
    ...Array.from({ length: accepted }, () => 1),
    ...(accepted < depth ? [0] : []),
  ]);

/** How many guesses are kept, by what became of the guess before; `z`: standard errors between both shares. */
export function afterGuess(rounds) {
  const judged = guesses(rounds);
  const after = (before) => judged.slice(1).filter((_, i) => judged[i] === before);
  const [kept, refused] = [after(1), after(0)];
  const [ofKept, ofRefused] = [sum(kept), sum(refused)];
  const share = (ofKept + ofRefused) / (kept.length + refused.length);
  const error = Math.sqrt(share * (1 - share) * (1 / kept.length + 1 / refused.length));
  const enough = Math.min(kept.length, refused.length) >= FEW && error > 0;
  const z = enough ? (ofKept / kept.length - ofRefused / refused.length) / error : 0;
  return { ofKept, afterKept: kept.length, ofRefused, afterRefused: refused.length, z, dependent: Math.abs(z) > Z };
}

/** For every length that was drafted: tokens a round if drafts end there, beside what the mean acceptance says. */
export function byLength(rounds) {
  const judged = guesses(rounds);
  const mean = judged.length ? sum(judged) / judged.length : 0;
  const most = Math.max(0, ...rounds.map((round) => round.depth));
  const lengths = Array.from({ length: most }, (_, i) => i + 1);
  return lengths.map((length) => {
    const whole = rounds.filter((round) => round.depth >= length).map((round) => Math.min(round.accepted, length));
    const byMean = sum(Array.from({ length: length + 1 }, (_, depth) => mean ** depth));
    return { length, rounds: whole.length, measured: 1 + sum(whole) / whole.length, byMean };
  });
}

/** The length from 1 whose rounds write most in a time; `step` and `check`: a draft step and the rest of a round. */
export function bestLength(tokens, step, check) {
  const pace = tokens.map((count, i) => count / ((i + 1) * step + check));
  return 1 + pace.indexOf(Math.max(...pace));
}

/** "nothing" or "all" where nearly so much of the last drafted tokens was kept; null otherwise. */
export function alarm(rounds) {
  let [drafted, accepted] = [0, 0];
  for (let i = rounds.length - 1; i >= 0 && drafted < LAST; i--) {
    drafted += rounds[i].drafted;
    accepted += rounds[i].accepted;
  }
  if (drafted < ENOUGH) return null;
  return accepted / drafted <= NOTHING ? "nothing" : accepted / drafted >= ALL ? "all" : null;
}
