// The acceptance rules over recorded distributions, cheap enough to be sampled ten thousand times in the page.
// tests/instrument holds them equal to engine/draftscope/verify/rules.py. `uniform()` gives the next random number.

import { lump, pick, residual, without } from "./distributions.js";

/** min(1, p/(l q)): the probability of accepting a token sampled from q; l is 1 except under leniency. */
export const acceptProbability = (p, q, lenience = 1) => Math.min(1, p / (lenience * q));

/** The running joint ratios p_1, p_2, ... of a block's children, each capped at 1. */
export function blockWeights(children) {
  let weight = 1;
  return children.map(({ p, q }) => (weight = acceptProbability(weight * p, q)));
}

/**
 * One token by RRSw, `count` siblings sampled without replacement; with one sibling it is the token rule. The wrong rule
 * samples the last token from p, as if the rejections had not changed it.
 */
export function sampledOnce({ p, q }, count, wrong, uniform) {
  let [left, from] = [p, q];
  for (let i = 0; i < count && from.some((y) => y > 0); i++) {
    const token = pick(from, uniform());
    if (uniform() < acceptProbability(left[token], from[token])) return token;
    [left, from] = [residual(left, from), without(from, token)];
  }
  return pick(wrong ? p : left, uniform());
}

/**
 * One token with deterministic children: the target samples its own, and a child with that token is accepted. The wrong
 * rule accepts each child with its p, and then samples from p again.
 */
export function topKOnce({ p }, children, wrong, uniform) {
  if (!wrong) return pick(p, uniform());
  let left = p;
  for (const token of children) {
    if (uniform() < left[token]) return token;
    left = without(left, token);
  }
  return pick(p, uniform());
}

/** Block verification: the probability that exactly k draft tokens are accepted, for its thresholds h. */
export function blockLengths(recorded) {
  const thresholds = recorded.map((h) => Math.max(0, Math.min(1, h)));
  const after = (k) => thresholds.slice(k).reduce((product, h) => product * (1 - h), 1);
  return [after(0), ...thresholds.map((h, i) => h * after(i + 1))];
}

/** How many are accepted once: all up to the last position that passes. */
export const blockOnce = (thresholds, uniform) => thresholds.map((h) => uniform() < h).lastIndexOf(true) + 1;

// Lossy rules.

/**
 * The probability that each token of the lumped distributions is accepted. Null if the recording does not say: tokens
 * that it leaves out are one entry, and under typical and top-k they must all be below the threshold.
 */
export function lossyAccept(decision, lumped, lenience) {
  const { p, q } = lumped;
  if (decision.rule === "lenient")
    return lenience ? p.map((x, i) => (q[i] > 0 ? acceptProbability(x, q[i], lenience) : 1)) : null;
  const threshold = decision.children[0].threshold;
  const probs = decision.distributions[0];
  const least = Math.min(...[...probs.p].sort((a, b) => b - a).slice(0, 32));
  if (probs.rest_p > 1e-9 && (decision.rule === "typical" ? least > threshold : least >= threshold)) return null;
  return p.map((x, i) =>
    Number(i < probs.ids.length && (decision.rule === "typical" ? x > threshold : x >= threshold && x > 0)),
  );
}

/** One token by a lossy rule: drafted from q, accepted with `accept`, else sampled from `last`. */
export function lossyOnce({ q }, accept, last, uniform) {
  const token = pick(q, uniform());
  return uniform() < accept[token] ? token : pick(last, uniform());
}

/** What the token after a rejection is sampled from: under leniency the residual, else p. */
export const lossyLast = (rule, { p, q }) => (rule === "lenient" ? residual(p, q) : p);

// What a recorded decision would have been with another random number.

/**
 * A recorded decision with another u for one child: {passed, same, next, distribution}. `next` is what the next sibling
 * would face, `distribution` what the correction would be sampled from; null where it was not recorded.
 */
export function decideAgain(decision, index, uniform, tokens) {
  const child = decision.children[index];
  const passed = uniform < child.threshold;
  if (passed === child.passed) return { passed, same: true, next: null, distribution: null };
  if (passed) return { passed, same: false, next: null, distribution: null };
  const probs = decision.distributions[index];
  const { p, q } = lump(probs);
  const at = (token) => probs.ids.indexOf(token);
  const [left, from] = [residual(p, q), without(q, at(tokens[index]))];
  if (index + 1 >= tokens.length) return { passed, same: false, next: null, distribution: left };
  const sibling = at(tokens[index + 1]);
  return {
    passed,
    same: false,
    next: { p: left[sibling], q: from[sibling], threshold: acceptProbability(left[sibling], from[sibling]) },
    distribution: null,
  };
}

/** The same for a block: {tau, distribution}; `distribution` is what the next token would be sampled from. */
export function decideBlockAgain(decisions, index, uniform) {
  const children = decisions.map((c) => c.children[0]);
  const tau =
    children.map((child, i) => (i === index ? uniform < child.threshold : child.passed)).lastIndexOf(true) + 1;
  if (tau === decisions.length) return { tau, distribution: null };
  const { p, q } = lump(decisions[tau].distributions[0]);
  return { tau, distribution: residual(p, q, tau ? children[tau - 1].weight : 1) };
}
