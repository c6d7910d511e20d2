"""The rules that make speculative decoding exact, written to be read.

p is the target distribution and q the draft distribution: sequences of probabilities over one vocabulary, in any number
type (Fraction for proofs, floats otherwise). Every rule except those of section 5 reproduces p exactly, provided that
each draft was drawn from the q it is verified with and that no random number is used twice. tests/verify/test_rules.py
proves this by enumeration and shows which mistakes break it. verify.py implements the same rules in torch; tests hold
the two equal.

Each draft has a uniform random number in [0, 1), which passes when `uniform < threshold`: a threshold of 0 never
passes, a threshold of 1 always does. At temperature 0 p has a single token, and all rules agree: descend while a child
is that token. For a chain of gamma drafts, row i of `p_rows` and `q_rows` is the distribution after the first i drafts;
p has gamma + 1 rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp, log
from typing import Generic, NamedTuple, TypeVar

Number = TypeVar("Number", float, Fraction)
Distribution = Sequence[Number]


class SiblingRow(NamedTuple, Generic[Number]):
    """The distributions that verify one sibling after all earlier siblings were rejected, and its threshold."""

    p: Distribution[Number]
    q: Distribution[Number]
    threshold: Number


# 1. How a rejection changes p and q.


def residual(p: Distribution[Number], q: Distribution[Number], weight: Number | int = 1) -> list[Number]:
    """The residual distribution norm((weight p - q)+), to draw from after a rejection (2211.17192, 2302.01318).

    `weight` is 1, except under block verification, where it is the joint ratio p_i (2403.10444).
    If the residual has no mass, p is returned. In exact arithmetic this has probability 0: at weight 1 it means q = p,
    so nothing is rejected, and under block verification it means a threshold of 0, so no block ends there. Rounding can
    still get here; then q equals p up to rounding, so p is the right distribution.
    """
    uncovered = [_positive(weight * x - y) for x, y in zip(p, q, strict=True)]
    return _normalised(uncovered) if any(uncovered) else list(p)


def without(q: Distribution[Number], token: int) -> list[Number]:
    """q without `token`, renormalised: the distribution of the next sibling when drawing without replacement.

    All zeros if q had no other token; then no further sibling could have been drawn.
    """
    rest = [y - y if x == token else y for x, y in enumerate(q)]
    return _normalised(rest) if any(rest) else rest


# 2. Token by token: each draft is compared with its own uniform, and the first rejection ends the chain.


def accept_probability(p: Distribution[Number], q: Distribution[Number], token: int) -> Number:
    """min(1, p/q): the probability of accepting a token drawn from q (2211.17192, 2302.01318)."""
    return _capped(_ratio(p, q, token))


def token_accepted(thresholds: Sequence[Number], uniforms: Sequence[Number]) -> int:
    """How many drafts of a chain are accepted: those before the first rejection (2211.17192, 2302.01318)."""
    passed = [uniform < threshold for uniform, threshold in zip(uniforms, thresholds, strict=True)]
    return passed.index(False) if False in passed else len(passed)


# 3. Siblings: children of one node, drawn from q without replacement and verified in draw order.


def sibling_rows(
    p: Distribution[Number], q: Distribution[Number], children: Sequence[int]
) -> tuple[list[SiblingRow[Number]], list[Number]]:
    """The distributions that verify each sibling in turn, and the distribution of the last token if all are rejected.

    Recursive rejection sampling without replacement, RRSw (2402.12374): accept with min(1, P/Q); on a rejection P
    becomes norm((P - Q)+) and Q loses the token. With one child this is the token rule. With no children the last
    token is a bonus token drawn from p.
    """
    rows: list[SiblingRow[Number]] = []
    left, drawn_from = list(p), list(q)
    for token in children:
        rows.append(SiblingRow(left, drawn_from, accept_probability(left, drawn_from, token)))
        left, drawn_from = residual(left, drawn_from), without(drawn_from, token)
    return rows, left


def deterministic_child(children: Sequence[int], draw: int) -> int | None:
    """The index of the accepted child when children are deterministic: not drawn from q, but top-k, n-gram or typed.

    `draw` is a token the target drew from p. If a child has that token, the child is accepted; if none has it, `draw`
    is the last token. This is the token rule with a q that puts all its mass on the child (2211.17192): accept with
    probability p(child); the residual is p without that child.
    """
    return children.index(draw) if draw in children else None


# 4. Blocks: a chain is verified as a whole; if a later draft passes, all drafts before it are accepted (2403.10444).


def block_thresholds(
    p_rows: Sequence[Distribution[Number]], q_rows: Sequence[Distribution[Number]], tokens: Sequence[int]
) -> tuple[list[Number], list[Number]]:
    """Weights p_1..p_gamma and thresholds h_1..h_gamma of a chain under block verification (2403.10444).

    p_0 = 1 and p_i = min(1, p_{i-1} p(x_i)/q(x_i)) is the running joint ratio. The last threshold is h_gamma = p_gamma;
    for i < gamma, h_i = S/(S + 1 - p_i) with S = sum_x (p_i p(x) - q(x))+ over the distributions after x_1..x_i.
    If p_i = 1 then h_i = 1. This also defines the case S = 0, where q = p after x_1..x_i and all later drafts pass.
    """
    weights = _weights(p_rows, q_rows, tokens)
    thresholds = []
    for weight, p, q in zip(weights[:-1], p_rows[1:], q_rows[1:], strict=False):
        mass = _total([_positive(weight * x - y) for x, y in zip(p, q, strict=True)])
        thresholds.append(weight if weight == 1 else mass / (mass + 1 - weight))
    return weights, thresholds + weights[-1:]


def block_accepted(thresholds: Sequence[Number], uniforms: Sequence[Number]) -> int:
    """tau, how many drafts of a chain are accepted: all up to the *last* one that passes (2403.10444)."""
    passed = [i for i, (uniform, h) in enumerate(zip(uniforms, thresholds, strict=True), start=1) if uniform < h]
    return max(passed, default=0)


def block_last(
    p_rows: Sequence[Distribution[Number]], q_rows: Sequence[Distribution[Number]], tokens: Sequence[int], tau: int
) -> list[Number]:
    """Distribution of the token after tau accepted drafts: norm((p_tau p - q)+), or p if all were (2403.10444)."""
    if tau == len(tokens):
        return list(p_rows[tau])
    return residual(p_rows[tau], q_rows[tau], _weights(p_rows, q_rows, tokens)[tau - 1] if tau else 1)


# 5. Lossy rules: their output does not follow p, and runs are marked so. They verify a chain token by token.

TYPICAL_EPS, TYPICAL_DELTA = 0.3, 0.09  # epsilon and delta of typical acceptance (2401.10774)


def typical_threshold(p: Distribution[Number]) -> float:
    """min(eps, delta exp(-H(p))): typical acceptance accepts a draft with p(token) above it (2401.10774).

    The flatter p is, the lower the threshold. After a rejection, and after the last draft, the token is drawn from p.
    """
    entropy = -sum(float(x) * log(x) for x in p if x)
    return min(TYPICAL_EPS, TYPICAL_DELTA * exp(-entropy))


def typical_accepts(p: Distribution[Number], token: int) -> bool:
    """Whether typical acceptance accepts a draft; q plays no part (2401.10774)."""
    return float(p[token]) > typical_threshold(p)


def lenient_probability(p: Distribution[Number], q: Distribution[Number], token: int, lenience: Number) -> Number:
    """min(1, p/(l q)): the token rule with its ratio scaled by 1/l; same residual (2211.17192, appendix A.5).

    No token appears more than 1/l times as often as under p. l = 1 is the token rule.
    """
    return _capped(_ratio(p, q, token) / lenience)


def top_k_accepts(p: Distribution[Number], token: int, count: int) -> bool:
    """Whether a draft is among the `count` most probable tokens of p. After a rejection the token is drawn from p."""
    return bool(p[token]) and sum(x > p[token] for x in p) < count


def output_distribution(q: Distribution[Number], accept: Sequence[Number], last: Distribution[Number]) -> list[Number]:
    """Output distribution of one draft from q: q a + (1 - sum q a) r, where a is `accept` and r is `last`."""
    taken = [y * a for y, a in zip(q, accept, strict=True)]
    rest = 1 - _total(taken)
    return [x + rest * r for x, r in zip(taken, last, strict=True)]


# Helpers.


def _weights(
    p_rows: Sequence[Distribution[Number]], q_rows: Sequence[Distribution[Number]], tokens: Sequence[int]
) -> list[Number]:
    """p_1..p_gamma. Each factor is capped at 1, so a ratio above 1 early in the chain does not offset a later one."""
    weights: list[Number] = []
    for p, q, token in zip(p_rows, q_rows, tokens, strict=False):
        ratio = _ratio(p, q, token)
        weights.append(_capped(weights[-1] * ratio if weights else ratio))
    return weights


def _ratio(p: Distribution[Number], q: Distribution[Number], token: int) -> Number:
    if not q[token]:
        raise ValueError(
            f"token {token} has probability 0 under q, so it cannot be a draft from q; pass the q it was drawn from"
        )
    return p[token] / q[token]


def _capped(x: Number) -> Number:
    return x if x < 1 else x / x  # min(1, x), in the number type of x


def _positive(x: Number) -> Number:
    return x if x > 0 else x - x


def _total(values: Sequence[Number]) -> Number:
    return sum(values[1:], start=values[0])


def _normalised(values: Sequence[Number]) -> list[Number]:
    total = _total(values)
    return [x / total for x in values]
