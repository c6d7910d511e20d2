// The speed over plain decoding by draft length, from one finished run: the Decide stage's estimate. Pure.
//
// In rounds of plain decoding: S = (prefill + L plain rounds) / (prefill + L / tau x (draft steps + rows + o)). The shape
// is the run's own: tokens kept, draft steps and nodes by level are means over all its rounds. The curve goes through
// the speed that was measured with that shape. Deeper levels were not run: they go on as the last one.

import { costsOf, draftForwards, isChain } from "../../../base/numbers.js";
import { counted, formatProb, median } from "../../../base/format.js";
import { draftLane, isFinished, plainLane, raceClock } from "../../../base/store.js";
import { speedup } from "../../../run/speed.js";

const MAX_LEVELS = 6; // drawn, unless more were run
const MAX_REQUESTS = 64;
const RARE = 0.001; // of an acceptance that is as good as none

/** What a finished run with a plain lane gives; null for any other. */
export function termsOf(store) {
  const [draft, plain] = [draftLane(store), plainLane(store)];
  const costs = isFinished(store) ? costsOf(draft, plain) : null;
  if (!costs?.drafted) return null;
  const { rounds } = draft;
  const mean = (of) => rounds.reduce((sum, round) => sum + of(round), 0) / rounds.length;
  const levels = Array.from({ length: Math.max(...rounds.map((round) => round.depth)) }, (_, i) => i);
  const measured = speedup(draft, plain, raceClock(store));
  const terms = {
    chain: isChain(draft),
    kept: levels.map((level) => mean((round) => Number(round.accepted > level))), // share of rounds that kept one there
    nodes: levels.map((level) => mean((round) => round.nodes.filter((node) => node.depth === level + 1).length)),
    steps: stepsOf(rounds, levels, costs.one),
    c: costs.c,
    o: costs.o,
    row: costs.row,
    rows: costs.curve,
    prefill: [plain, draft].map((lane) => (lane.prefill ? (lane.prefill.end - lane.prefill.start) / costs.one : 0)),
    length: draft.tokens.length,
    measured,
    through: 1,
  };
  const modelledRatio = modelled(terms, levels.length, 1, terms.length).ratio;
  return Number.isFinite(measured.ratio) ? { ...terms, modelledRatio, through: measured.ratio / modelledRatio } : null;
}

/** Draft forwards by level; what is left of a round that has more of them belongs to the last. */
function stepsOf(rounds, levels, one) {
  const forwards = rounds.map(draftForwards);
  const most = Math.max(...forwards.map((times) => times.length));
  const costs = Array.from({ length: Math.max(most, levels.length) }, (_, i) => {
    const there = forwards.filter((times) => times.length > i).map((times) => times[i]);
    return there.length ? (median(there) / one) * (there.length / rounds.length) : 0;
  });
  const over = costs.slice(levels.length).reduce((sum, cost) => sum + cost, 0);
  return levels.map((level) => costs[level] + (level === levels.length - 1 ? over : 0));
}

/** Every number of levels from 0 (plain decoding) on: {level, nodes, tau, cost, ratio, ran}. */
export function curve(terms, requests, length) {
  const ran = terms.kept.length;
  return Array.from({ length: Math.max(MAX_LEVELS, ran) + 1 }, (_, level) => {
    const point = modelled(terms, level, requests, length);
    return { ...point, ratio: level ? point.ratio * terms.through : 1, ran: level <= ran };
  });
}

function modelled(terms, level, requests, length) {
  const rows = (count) => terms.row * rowsCost(terms.rows, requests * count);
  const plain = rows(1) + 1 - terms.row;
  const upTo = (list, next) => Array.from({ length: level }, (_, i) => list[i] ?? next(i)).reduce((a, b) => a + b, 0);
  const last = terms.kept.length - 1;
  const again = terms.kept[last] / (last ? terms.kept[last - 1] : 1) || 0;
  const nodes = upTo(terms.nodes, () => terms.nodes[last]);
  const tau = 1 + upTo(terms.kept, (i) => terms.kept[last] * again ** (i - last));
  const steps = upTo(terms.steps, () => terms.steps[last]);
  const cost = level ? (steps + rows(1 + nodes) + terms.o) / plain : 1;
  const before = terms.prefill.map((ms) => (requests * ms) / (length * plain));
  return { level, nodes, tau, cost, ratio: (before[0] + 1) / (before[1] + cost / tau) };
}

/** v of so many rows; beyond those that were measured it grows by the row. */
function rowsCost({ widths, v }, count) {
  const above = widths.findIndex((width) => width >= count);
  if (above < 0) return (v.at(-1) * count) / widths.at(-1);
  if (above === 0) return v[0];
  const share = (count - widths[above - 1]) / (widths[above] - widths[above - 1]);
  return v[above - 1] + share * (v[above] - v[above - 1]);
}

/** The fastest of what was run; plain decoding where nothing is faster. */
export const best = (points) => points.filter((point) => point.ran).reduce((a, b) => (b.ratio > a.ratio ? b : a));

/**
 * The terms as the sliders say: `acceptance` is the first level's, whose change moves all the others as far towards 0
 * or 1; `draft` is c, and `rows` how many times as much each further row costs.
 */
export function changed(terms, { acceptance, draft, rows }) {
  const [first] = terms.kept;
  const moved = (share) =>
    acceptance >= first ? 1 - ((1 - share) * (1 - acceptance)) / (1 - first || 1) : (share * acceptance) / first;
  let survives = 1;
  const kept = terms.kept.map((share, i) => (survives *= moved(i ? share / terms.kept[i - 1] || 0 : share)));
  const steps = terms.steps.map((step) => (terms.c ? (step * draft) / terms.c : draft));
  const v = terms.rows.v.map((cost) => terms.rows.v[0] + (cost - terms.rows.v[0]) * rows);
  return { ...terms, kept, steps, rows: { ...terms.rows, v } };
}

/** The sentence above the curve: the shape that was run first, then a shorter one that does better. */
export function headline(points, terms) {
  const [asRun, top] = [points[terms.kept.length], best(points)];
  const speed = (point) => `about ${point.ratio.toFixed(2)} times plain decoding`;
  if (top.ratio <= 1) {
    const next = best(points.slice(1));
    return `By this estimate it does not pay: at best ${speed(next)}, with ${shape(next, terms)}.`;
  }
  if (asRun === top || asRun.ratio.toFixed(2) === top.ratio.toFixed(2))
    return `By this estimate it pays: ${speed(asRun)}, with ${shape(asRun, terms)}${deeper(points, asRun)}.`;
  const [said, other, pays] = asRun.ratio > 1 ? [asRun, top, "it pays"] : [top, asRun, "it pays if drafts are shorter"];
  return `By this estimate ${pays}: ${speed(said)}, with ${shape(said, terms)}; ${shape(other, terms)} would give about ${other.ratio.toFixed(2)}.`;
}

/** A hollow point above what was run. */
function deeper(points, { ratio }) {
  const top = points.filter((point) => !point.ran).reduce((a, b) => (b.ratio > a.ratio ? b : a), { ratio });
  return top.ratio.toFixed(2) === ratio.toFixed(2) ? "" : `; ${top.level}, not run, perhaps ${top.ratio.toFixed(2)}`;
}

/** Drafted in a round. */
function shape(point, { chain }) {
  if (chain || point.nodes <= point.level) return `${counted(point.level, "drafted token")} a round`;
  return `drafts ${counted(point.level, "token")} deep, ${Math.round(point.nodes)} in all`;
}

/** What the curve rests on. */
export function basis({ measured, modelledRatio, kept, rows, length }) {
  const runs =
    measured.source === "runs"
      ? `in ${measured.n} whole runs [${measured.low.toFixed(2)}, ${measured.high.toFixed(2)}]`
      : "in this race";
  const parts =
    modelledRatio.toFixed(2) === measured.ratio.toFixed(2)
      ? "the times of its rounds and of reading the prompt add up to the same"
      : `in the race alone the times of its rounds and of reading the prompt add up to ${modelledRatio.toFixed(2)}`;
  return (
    `Watch measured ${measured.ratio.toFixed(2)} ${runs}, for answers of ${length} tokens, and the curve goes through it; ${parts}. ` +
    `Hollow points were not run: in drafts deeper than ${counted(kept.length, "token")}, each further token is taken to ` +
    `cost as much and to be accepted as often as the last. Checking was timed for up to ${rows.widths.at(-1)} tokens at ` +
    `once; beyond that each is taken to cost as much as those.`
  );
}

/** Where it stops paying, one thing changed at a time, everything else as the sliders say; empty if it does not pay. */
export function flips(terms, set) {
  const pays = (change) => {
    const now = { ...set, ...change };
    return best(curve(changed(terms, now), now.requests, now.length)).ratio > 1;
  };
  if (!pays({})) return "";
  let requests = set.requests;
  while (requests <= MAX_REQUESTS && pays({ requests })) requests++;
  let [low, high] = [0, set.acceptance];
  for (let i = 0; i < 20; i++) {
    const acceptance = (low + high) / 2;
    if (pays({ acceptance })) high = acceptance;
    else low = acceptance;
  }
  const atAnyLoad = requests > MAX_REQUESTS;
  const load = atAnyLoad
    ? `It pays with ${MAX_REQUESTS} concurrent requests too`
    : `It stops paying at ${requests} concurrent requests`;
  if (pays({ acceptance: RARE }))
    return `${load}, ${atAnyLoad ? "and" : "but pays"} however few drafted tokens are accepted.`;
  return `${load}${atAnyLoad ? "; it stops paying" : ", or"} where the first drafted token is accepted in less than ${formatProb(high)} of rounds.`;
}
