// Rows of a comparison, from its events: what follows from them, and their order. Pure.

import { counted, median } from "../../../base/format.js";

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
