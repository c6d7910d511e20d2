// Recorded distributions as arrays, and how a rejection changes them. tests/instrument holds this equal to
// engine/draftscope/verify/rules.py. p is the target's distribution, q the draft's.

/**
 * Recorded probabilities as arrays that sum to 1. Tokens that a trace leaves out are summed into three entries, so that
 * all sums stay exact: where p and q overlap, where only p has mass, where only q has mass. Each entry is sampled and
 * verified like a token. Without q there is one entry.
 */
export function lump(probs) {
  const q = probs.q;
  const both = q ? probs.rest_min || 0 : 0;
  const p = q ? [...probs.p, both, probs.rest_p - both, 0] : [...probs.p, probs.rest_p];
  return { p: normalised(p), q: q ? normalised([...q, both, 0, (probs.rest_q || 0) - both]) : null };
}

function normalised(values) {
  const positive = values.map((x) => Math.max(0, x));
  const total = positive.reduce((sum, x) => sum + x, 0);
  return total > 0 ? positive.map((x) => x / total) : positive;
}

/** The residual distribution norm((weight p - q)+); p itself if it has no mass. */
export function residual(p, q, weight = 1) {
  const left = p.map((x, i) => Math.max(0, weight * x - q[i]));
  return left.some((x) => x > 0) ? normalised(left) : p;
}

/** q without one token, renormalised. */
export const without = (q, token) => normalised(q.map((y, i) => (i === token ? 0 : y)));

/** Random numbers in [0, 1), the same for the same seed: mulberry32. */
export function uniformStream(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** The token at `u` of the cumulative distribution. */
export function pick(distribution, u) {
  let left = u;
  for (let i = 0; i < distribution.length; i++) {
    left -= distribution[i];
    if (left < 0) return i;
  }
  return distribution.findLastIndex((x) => x > 0);
}

/** Total variation between counts of samples and a distribution, and what chance alone gives on average. */
export function distanceFrom(counts, distribution) {
  const n = counts.reduce((sum, k) => sum + k, 0);
  const distance = counts.reduce((sum, k, i) => sum + Math.abs(k / n - distribution[i]), 0) / 2;
  const chance = distribution.reduce((sum, x) => sum + Math.sqrt((2 * x * (1 - x)) / (Math.PI * n)), 0) / 2;
  return { distance, chance };
}
