// The rules over recorded laws, small enough to be tried ten thousand times in the page. Pure; the readable twin of
// engine/draftscope/rules.py for one contest. p is the target's law, q the draft's.

/**
 * Recorded laws as arrays that sum to 1. What a trace leaves out joins as three lumps, so that every mass stays exact:
 * where p and q agree, what only p has, what only q has. Each lump is then drawn and judged like a single token. Without
 * q there is one lump.
 */
export function lump(laws) {
  const q = laws.q;
  const both = q ? laws.rest_min || 0 : 0;
  const p = q ? [...laws.p, both, laws.rest_p - both, 0] : [...laws.p, laws.rest_p];
  return { p: normalised(p), q: q ? normalised([...q, both, 0, (laws.rest_q || 0) - both]) : null };
}

function normalised(values) {
  const positive = values.map((x) => Math.max(0, x));
  const total = positive.reduce((sum, x) => sum + x, 0);
  return total > 0 ? positive.map((x) => x / total) : positive;
}

/** norm((weight p - q)+); p itself where nothing is left. */
export function residual(p, q, weight = 1) {
  const left = p.map((x, i) => Math.max(0, weight * x - q[i]));
  return left.some((x) => x > 0) ? normalised(left) : p;
}

/** q without one token, renormalised. */
export const without = (q, token) => normalised(q.map((y, i) => (i === token ? 0 : y)));

/** Coins that can be tossed again in the same order: mulberry32. */
export function uniformStream(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export function pick(law, u) {
  let left = u;
  for (let i = 0; i < law.length; i++) {
    left -= law[i];
    if (left < 0) return i;
  }
  return law.findLastIndex((x) => x > 0);
}

/**
 * One token by the rule for drawn children, `count` siblings without replacement (one is the token rule). The wrong
 * rule draws the last token from p itself, as if the rejections had said nothing.
 */
export function sampledOnce({ p, q }, count, wrong, coin) {
  let [left, from] = [p, q];
  for (let i = 0; i < count && from.some((y) => y > 0); i++) {
    const token = pick(from, coin());
    if (coin() * from[token] < left[token]) return token;
    [left, from] = [residual(left, from), without(from, token)];
  }
  return pick(wrong ? p : left, coin());
}

/**
 * One token where the children were chosen, not drawn: the target draws its own, and a child that carries it stands.
 * The wrong rule accepts each child with its p, and then draws from p again.
 */
export function topKOnce({ p }, children, wrong, coin) {
  if (!wrong) return pick(p, coin());
  let left = p;
  for (const token of children) {
    if (coin() < left[token]) return token;
    left = without(left, token);
  }
  return pick(p, coin());
}

/** A block's chances: how often exactly k drafts stand, for its thresholds h. The last coin that passes decides. */
export function blockLengths(recorded) {
  const thresholds = recorded.map((h) => Math.max(0, Math.min(1, h)));
  const after = (k) => thresholds.slice(k).reduce((product, h) => product * (1 - h), 1);
  return [after(0), ...thresholds.map((h, i) => h * after(i + 1))];
}

export const blockOnce = (thresholds, coin) => thresholds.map((h) => coin() < h).lastIndexOf(true) + 1;

/** How far shares of n draws lie from a law (half the sum of differences), and how far chance alone puts them. */
export function distanceFrom(counts, law) {
  const n = counts.reduce((sum, k) => sum + k, 0);
  const found = counts.reduce((sum, k, i) => sum + Math.abs(k / n - law[i]), 0) / 2;
  const chance = law.reduce((sum, x) => sum + Math.sqrt((2 * x * (1 - x)) / (Math.PI * n)), 0) / 2;
  return { found, chance };
}

/** The other fall of one recorded coin: {passed, same, next, law}; `law` is what the record still says, else null. */
export function decideAgain(contest, index, coin, tokens) {
  const child = contest.children[index];
  const passed = coin < child.threshold;
  if (passed === child.passed) return { passed, same: true, next: null, law: null };
  if (passed) return { passed, same: false, next: null, law: null };
  const laws = contest.distributions[index];
  const { p, q } = lump(laws);
  const at = (token) => laws.ids.indexOf(token);
  const [left, from] = [residual(p, q), without(q, at(tokens[index]))];
  if (index + 1 >= tokens.length) return { passed, same: false, next: null, law: left };
  const sibling = at(tokens[index + 1]);
  return {
    passed,
    same: false,
    next: { p: left[sibling], q: from[sibling], threshold: Math.min(1, left[sibling] / from[sibling]) },
    law: null,
  };
}

/** The same for a block: {tau, law}; `law` is what the next token would be drawn from, null where it was not recorded. */
export function decideBlockAgain(contests, index, coin) {
  const children = contests.map((c) => c.children[0]);
  const tau = children.map((child, i) => (i === index ? coin < child.threshold : child.passed)).lastIndexOf(true) + 1;
  if (tau === contests.length) return { tau, law: null };
  const { p, q } = lump(contests[tau].distributions[0]);
  return { tau, law: residual(p, q, tau ? children[tau - 1].weight : 1) };
}
