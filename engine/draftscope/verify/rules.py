"""The rules that make speculative decoding exact, written to be read.

p is the target's distribution and q the draft's: sequences of probabilities over one vocabulary, in any number type
(Fraction for proofs, floats otherwise). Each rule but those of section 5 reproduces p exactly, provided that drafts
were drawn from the q that verifies them and that no draw is used twice; tests/test_rules.py enumerates both the proofs
and what breaks them. verify.py is the fast twin of this file, in torch, tested equal to it.

A uniform is uniform on [0, 1) and passes when `uniform < threshold`: threshold 0 never passes, threshold 1 always does.
At temperature 0 p is a single token, and every rule says the same: descend while the child is that token. In a chain of
gamma drafts, row i of `p_rows` and `q_rows` is the distribution after the first i drafts; p has gamma + 1 rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp, log
from typing import Generic, NamedTuple, TypeVar

Number = TypeVar("Number", float, Fraction)
Distribution = Sequence[Number]


class Faced(NamedTuple, Generic[Number]):
    """What one sibling faces once all before it were rejected: both distributions, and the threshold of its uniform."""

    p: Distribution[Number]
    q: Distribution[Number]
    threshold: Number


# 1. Distributions: what is left of p, and of q, after a rejection.


def residual(p: Distribution[Number], q: Distribution[Number], weight: Number | int = 1) -> list[Number]:
    """norm((weight p - q)+): what the draft left uncovered of the target (2211.17192, 2302.01318).

    `weight` is 1 but under block verification, where it is the joint ratio p_i (2403.10444).
    Where no mass is left the answer is p itself. In exact numbers that has probability 0: at weight 1 it means q = p,
    which rejects nothing, and under a block's weight a threshold of 0, which stops nowhere. Rounding can get there all
    the same, and then q is p but for the rounding, so p is the distribution to draw from.
    """
    uncovered = [_positive(weight * x - y) for x, y in zip(p, q, strict=True)]
    return _normalised(uncovered) if any(uncovered) else list(p)


def without(q: Distribution[Number], token: int) -> list[Number]:
    """q without one token, renormalised: the distribution of the next sibling when siblings are drawn without
    replacement.

    All zeros where nothing is left: q had one token, so no further sibling could have been drawn.
    """
    rest = [y - y if x == token else y for x, y in enumerate(q)]
    return _normalised(rest) if any(rest) else rest


# 2. Token by token: each draft has a uniform of its own, and the first rejection ends the chain.


def accept_probability(p: Distribution[Number], q: Distribution[Number], token: int) -> Number:
    """min(1, p/q): the threshold of a token drawn from q (2211.17192, 2302.01318)."""
    return _capped(_ratio(p, q, token))


def token_accepted(thresholds: Sequence[Number], uniforms: Sequence[Number]) -> int:
    """How many drafts of a chain stand: those before the first uniform that fails (2211.17192, 2302.01318)."""
    passed = [uniform < threshold for uniform, threshold in zip(uniforms, thresholds, strict=True)]
    return passed.index(False) if False in passed else len(passed)


# 3. Siblings: children of one node, drawn from q without replacement, verified in the order in which they were drawn.


def faced(
    p: Distribution[Number], q: Distribution[Number], children: Sequence[int]
) -> tuple[list[Faced[Number]], list[Number]]:
    """What each sibling faces in turn, and the distribution of the last token if all are rejected.

    Recursive rejection sampling without replacement, RRSw (2402.12374): accept with min(1, P/Q); on a rejection P
    becomes norm((P - Q)+) and Q loses the token. One child is the token rule; no child leaves p, a leaf's bonus.
    """
    rows: list[Faced[Number]] = []
    left, drawn_from = list(p), list(q)
    for token in children:
        rows.append(Faced(left, drawn_from, accept_probability(left, drawn_from, token)))
        left, drawn_from = residual(left, drawn_from), without(drawn_from, token)
    return rows, left


def deterministic_child(children: Sequence[int], draw: int) -> int | None:
    """Which child stands, where children were chosen rather than drawn (top-k trees as in Medusa, n-grams, typing).

    The target draws its own token from p: if a child carries it, descend to that child; if none does, the draw is the
    last token. It is the token rule with a q that is certain of its child (2211.17192): accept with p(child), and the
    residual is p without that child.
    """
    return children.index(draw) if draw in children else None


# 4. Blocks: a chain is verified as a whole, and a later draft that passes rescues those before it (2403.10444).


def block_thresholds(
    p_rows: Sequence[Distribution[Number]], q_rows: Sequence[Distribution[Number]], tokens: Sequence[int]
) -> tuple[list[Number], list[Number]]:
    """Weights p_1..p_gamma and thresholds h_1..h_gamma of a chain under block verification (2403.10444).

    p_0 = 1 and p_i = min(1, p_{i-1} p(x_i)/q(x_i)), the running joint ratio. h_gamma = p_gamma; before it h_i = S/(S +
    1 - p_i) with S = sum_x (p_i p(x) - q(x))+ over the distributions after x_1..x_i. At p_i = 1 that is 1, and so it is
    where S = 0 as well: then q = p there, and whatever comes later passes.
    """
    weights = _weights(p_rows, q_rows, tokens)
    thresholds = []
    for weight, p, q in zip(weights[:-1], p_rows[1:], q_rows[1:], strict=False):
        mass = _total([_positive(weight * x - y) for x, y in zip(p, q, strict=True)])
        thresholds.append(weight if weight == 1 else mass / (mass + 1 - weight))
    return weights, thresholds + weights[-1:]


def block_accepted(thresholds: Sequence[Number], uniforms: Sequence[Number]) -> int:
    """tau, how many drafts of a chain stand: up to the *last* uniform that passes (2403.10444)."""
    passed = [i for i, (uniform, h) in enumerate(zip(uniforms, thresholds, strict=True), start=1) if uniform < h]
    return max(passed, default=0)


def block_last(
    p_rows: Sequence[Distribution[Number]], q_rows: Sequence[Distribution[Number]], tokens: Sequence[int], tau: int
) -> list[Number]:
    """The distribution of the token after tau accepted drafts: norm((p_tau p - q)+), or p where all stand
    (2403.10444)."""
    if tau == len(tokens):
        return list(p_rows[tau])
    return residual(p_rows[tau], q_rows[tau], _weights(p_rows, q_rows, tokens)[tau - 1] if tau else 1)


# 5. Lossy rules: each writes another distribution than p, and says so. Judged token by token, along a chain.

TYPICAL_EPS, TYPICAL_DELTA = 0.3, 0.09  # of typical acceptance, as in 2401.10774


def typical_threshold(p: Distribution[Number]) -> float:
    """min(eps, delta exp(-H(p))): typical acceptance takes a draft whose p lies above it (2401.10774).

    The flatter p is, the less a token has to weigh. After a rejection, as behind the last draft, p is drawn from.
    """
    entropy = -sum(float(x) * log(x) for x in p if x)
    return min(TYPICAL_EPS, TYPICAL_DELTA * exp(-entropy))


def typical_accepts(p: Distribution[Number], token: int) -> bool:
    """Whether a draft is typical of p, whatever it was drawn from (2401.10774)."""
    return float(p[token]) > typical_threshold(p)


def lenient_probability(p: Distribution[Number], q: Distribution[Number], token: int, lenience: Number) -> Number:
    """min(1, p/(l q)): the token rule's threshold, 1/l as high (2211.17192, appendix A.5). The residual is the same.

    No token is written more than 1/l times as often as p has it; l = 1 is the token rule.
    """
    return _capped(_ratio(p, q, token) / lenience)


def top_k_accepts(p: Distribution[Number], token: int, count: int) -> bool:
    """Whether a draft is among the `count` tokens that p holds likeliest; after a rejection p is drawn from."""
    return bool(p[token]) and sum(x > p[token] for x in p) < count


def written(q: Distribution[Number], accept: Sequence[Number], last: Distribution[Number]) -> list[Number]:
    """The distribution that one draft from q leaves: q a + (1 - sum q a) r, where `accept` is a and `last` is r."""
    taken = [y * a for y, a in zip(q, accept, strict=True)]
    rest = 1 - _total(taken)
    return [x + rest * r for x, r in zip(taken, last, strict=True)]


# Helpers.


def _weights(
    p_rows: Sequence[Distribution[Number]], q_rows: Sequence[Distribution[Number]], tokens: Sequence[int]
) -> list[Number]:
    """p_1..p_gamma. The cap at 1 is applied after each factor: a surplus early in the chain is not carried over."""
    weights: list[Number] = []
    for p, q, token in zip(p_rows, q_rows, tokens, strict=False):
        ratio = _ratio(p, q, token)
        weights.append(_capped(weights[-1] * ratio if weights else ratio))
    return weights


def _ratio(p: Distribution[Number], q: Distribution[Number], token: int) -> Number:
    if not q[token]:
        raise ValueError(
            f"token {token} has probability 0 under q, so it was never drawn from it; pass the q it came from"
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
