// A load test as the page reads it: one document (engine/draftscope/servers/curve.py), live or from a file. Pure.

const MAX_BYTES = 2e6;
const NUMBERS = ["concurrency", "finished", "failed", "tokens_per_second", "good_per_second"];
const TIMES = ["latency_p50", "latency_p99", "ttft_p50", "ttft_p99", "tpot_p50"];

/** What can be drawn against requests at once: seconds are milliseconds here. */
export const MEASURES = {
  speed: { words: "tokens/s", unit: "tokens/s", of: (point) => point.tokens_per_second },
  good: { words: "answers/s", unit: "answers/s", of: (point) => point.good_per_second },
  latency: { words: "whole answer, p99", unit: "ms", of: (point) => ms(point.latency_p99) },
  ttft: { words: "first token, p99", unit: "ms", of: (point) => ms(point.ttft_p99) },
  tpot: { words: "each further token, median", unit: "ms", of: (point) => ms(point.tpot_p50) },
};

const ms = (seconds) => (seconds === null ? NaN : 1000 * seconds);

/** The document in a file's text; null for any other text. */
export function readCurve(text) {
  if (text.length > MAX_BYTES) return null;
  try {
    const read = JSON.parse(text);
    return fits(read) ? read : null;
  } catch {
    return null;
  }
}

function fits(read) {
  if (read?.kind !== "server-load" || read.version !== 1) return false;
  const plain = (value) => value && typeof value === "object" && !Array.isArray(value);
  const names = plain(read.lanes) ? Object.entries(read.lanes) : [];
  if (!names.length || !names.flat().every((text) => typeof text === "string") || !plain(read.missing)) return false;
  if (![read.points, read.predicted, read.concurrency, read.stops ?? []].every(Array.isArray)) return false;
  if (![read.seconds, read.tokens, read.temperature, ...read.concurrency].every(Number.isFinite)) return false;
  const known = (point) => plain(point) && point.lane in read.lanes && Number.isFinite(point.concurrency);
  return (
    read.points.every((point) => known(point) && pointFits(point)) &&
    read.predicted.every((prediction) => known(prediction) && Number.isFinite(prediction.ratio)) &&
    (read.stops ?? []).every(known) &&
    [read.predicted_with, read.created].every((text) => typeof text === "string")
  );
}

const pointFits = (point) =>
  NUMBERS.every((name) => Number.isFinite(point[name])) &&
  TIMES.every((name) => point[name] === null || Number.isFinite(point[name])) &&
  (point.counted === null || typeof point.counted === "object");

export const lanesOf = (curve) => Object.keys(curve.lanes);

const pointsOf = (curve, lane) =>
  curve.points.filter((point) => point.lane === lane).sort((a, b) => a.concurrency - b.concurrency);

const finite = (points) => points.filter(({ y }) => Number.isFinite(y));

/** One line for each server: {name, lane, points: [{x, y}]}. */
export const seriesOf = (curve, measure) =>
  lanesOf(curve).map((name) => ({
    name,
    lane: name,
    points: finite(pointsOf(curve, name).map((point) => ({ x: point.concurrency, y: MEASURES[measure].of(point) }))),
  }));

/** Tokens/s over the first server's at the same concurrency, of every other server, and what was predicted of it. */
export function speedupsOf(curve) {
  const [first, ...others] = lanesOf(curve);
  const base = new Map(pointsOf(curve, first).map((point) => [point.concurrency, point.tokens_per_second]));
  return others.flatMap((name) => {
    const measured = pointsOf(curve, name).map((point) => ({
      x: point.concurrency,
      y: point.tokens_per_second / base.get(point.concurrency),
    }));
    const predicted = curve.predicted
      .filter(({ lane }) => lane === name)
      .map(({ concurrency: x, ratio: y }) => ({ x, y }));
    return [
      { name, lane: name, points: finite(measured) },
      { name: `${name}, predicted`, lane: name, points: predicted, predicted: true },
    ].filter(({ points }) => points.length);
  });
}

/** Where a server that drafted at fewer requests at once stops, by what it counts: [{lane, from, nothing}]. */
export const stopsOf = (curve) =>
  (curve.stops ?? []).map(({ lane, concurrency, nothing }) => ({ lane, from: concurrency, nothing }));

export const stopWords = (stops) => `drafts ${stops.every(({ nothing }) => nothing) ? "" : "almost "}nothing`;

/** What a reader has to know beside the lines. */
export function notesOf(curve) {
  const notes = Object.entries(curve.missing).map(([lane, why]) => [lane, String(why)]);
  for (const { lane, from, nothing } of stopsOf(curve))
    notes.push([lane, `${stopWords([{ nothing }])} from ${from} requests at once on.`]);
  for (const point of curve.points)
    if (point.failure)
      notes.push([point.lane, `${point.failed} failed at ${point.concurrency}, at first: ${point.failure}`]);
  return notes;
}

/** Share of drafted tokens that were accepted, and accepted tokens a round, as the server counted them. */
export function acceptanceOf({ counted }) {
  if (!counted || !Number.isFinite(counted.drafted)) return { share: NaN, perRound: NaN };
  return {
    share: counted.drafted ? counted.accepted / counted.drafted : 0,
    perRound: counted.rounds ? counted.accepted / counted.rounds : NaN,
  };
}
