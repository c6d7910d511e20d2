// Rows of a comparison, from its events: what follows from them, and their order. Pure.

import { counted, median } from "../../../base/format.js";
import { APART, BEYOND } from "../../../run/speed.js";

/** Rows of a comparison: the last event of each lane, with what follows from it. */
export function comparedRows(events) {
  const last = new Map(events.map((event) => [event.lane, event]));
  const plain = last.get("plain");
  const rate = (event, seconds) => event.tokens / seconds;
  const speed = (event) => (event && event.seconds.length ? rate(event, median(event.seconds)) : NaN);
  const pairs = (event) =>
    event.seconds.slice(0, plain?.seconds.length).map((s, i) => rate(event, s) / rate(plain, plain.seconds[i]));
  return [...last.values()].map((event) => ({
    ...event,
    c: plain && Number.isFinite(event.draft_ms) ? event.draft_ms / plain.round_ms : NaN,
    tau: event.rounds ? event.tokens / event.rounds : NaN,
    perSecond: speed(event),
    times: speed(event) / speed(plain),
    range: plain ? pairs(event) : [],
    why: whyNothing(event),
    runs: event.seconds.length,
  }));
}

/** A speedup above tau: no round costs less than one of plain decoding, so the machine did it, not the drafter. */
export const isNoise = ({ drafter, times, tau }) => drafter !== "plain" && times > BEYOND * tau;

/** The lanes whose range overlaps with that of the fastest, and the fastest; none if it stands alone. */
export function evenWithFastest(rows) {
  const ranked = ranking(rows);
  if (!ranked.length) return [];
  const low = Math.min(...ranked[0].range);
  const even = ranked.filter(({ range }) => Math.max(...range) >= low);
  return even.length > 1 ? even.map(({ lane }) => lane) : [];
}

/** What of the ranking is noise, as sentences: ranges that overlap with the fastest, pairs of runs that disagree, and
 *  speedups above tau. Plain decoding and what has a chosen acceptance are not ranked. */
export function noiseOfRows(rows) {
  const ranked = ranking(rows);
  if (!ranked.length) return [];
  const same = evenWithFastest(rows);
  const beyond = ranked.filter(isNoise).map(({ title, tau }) => `${title} (τ ${tau.toFixed(2)})`);
  const spread = Math.max(...ranked.map(({ range }) => Math.max(...range) / Math.min(...range) - 1));
  const said = [];
  if (same.length) said.push(`which of the ${same.length} marked ≈ is fastest is not known: their ranges overlap`);
  if (spread > APART) said.push(`pairs of runs of one drafter disagree by up to ${Math.round(100 * spread)}%`);
  if (beyond.length) said.push(`a speedup above τ is not the drafter's: ${beyond.join("; ")}`);
  return said;
}

const ranks = ({ drafter, synthetic, range, times }) =>
  drafter !== "plain" && !synthetic && range.length > 1 && Number.isFinite(times);

const ranking = (rows) => sortedRows(rows, "times", true).filter((row) => ranks(row));

/** Why every round wrote one token; empty where one wrote more, and for plain decoding. */
function whyNothing({ drafter, rounds, tokens, drafted, idle }) {
  if (drafter === "plain" || !rounds || tokens > rounds || drafted === undefined) return "";
  if (drafted) return `none of its ${counted(drafted, "drafted token")} was accepted`;
  return `drafted nothing here${idle ? `: ${idle}` : ""}`;
}

/** Rows by one of their figures, largest first or last; then rows without it, then those of chosen acceptance. */
export function sortedRows(rows, by, down) {
  const value = (row) => (Number.isFinite(row[by]) ? row[by] : null);
  return [...rows].sort((a, b) => {
    if (a.synthetic !== b.synthetic) return a.synthetic ? 1 : -1;
    if (by === "title") return (down ? -1 : 1) * a.title.localeCompare(b.title);
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return down ? y - x : x - y;
  });
}
