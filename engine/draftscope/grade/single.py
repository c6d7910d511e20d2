"""Exercise 1: accept or correct one drafted token (2211.17192, 2302.01318)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from draftscope.grade.enumerated import Case, Distribution, LawExercise, Situation, Tokens, fraction, renamed, token
from draftscope.grade.exercise import floats, written
from draftscope.grade.grid import FailedError, Output
from draftscope.grade.starter_drawing import draw

Row = Sequence[float]
Rng = Callable[[], float]
Decided = tuple[bool, int]

PAIRS = [  # p and q of which every threshold, right or wrong, is a multiple of 1/12; the first three are for everybody
    ("1/2 1/2", "3/4 1/4"), ("1/3 1/3 1/3", "2/3 1/6 1/6"), ("1/4 1/2 1/4", "1/2 1/4 1/4"),
    ("1/2 1/4 1/4", "1/4 1/4 1/2"), ("1/3 2/3", "2/3 1/3"), ("1/4 3/4", "1/2 1/2"), ("1/2 1/2 0", "1/4 1/2 1/4"),
    ("1/4 3/4", "3/4 1/4"), ("1/2 1/4 1/4", "0 1/2 1/2"),
]  # fmt: skip


def over(p: float, q: float) -> float:
    """min(1, p/q); a token of probability 0 under q can always be kept."""
    return min(1.0, p / q) if q else 1.0


def positive(p: Row, q: Row) -> list[float]:
    return [max(x - y, 0.0) for x, y in zip(p, q, strict=True)]


def normalised(weights: Row) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights] if total else list(weights)


def residual(p: Row, q: Row) -> list[float]:
    return normalised(positive(p, q)) if any(positive(p, q)) else list(p)


def decided(p: Row, q: Row, drafted: int, rng: Rng, kept: float | None = None, after: Row | None = None) -> Decided:
    """Keeps the token with probability `kept`, else draws from `after`; by default as the rule says."""
    threshold = over(p[drafted], q[drafted]) if kept is None else kept
    if rng() < threshold:
        return True, drafted
    return False, draw(residual(p, q) if after is None else after, rng)


def same(rng: Rng) -> Rng:
    """The same number each time."""
    u = rng()
    return lambda: u


RULES: dict[str, Callable[..., Any]] = {
    "right": decided,
    "target instead of residual": lambda p, q, x, rng: decided(p, q, x, rng, after=p),
    "draft instead of residual": lambda p, q, x, rng: decided(p, q, x, rng, after=q),
    "residual not renormalised": lambda p, q, x, rng: decided(p, q, x, rng, after=positive(p, q)),
    "residual the wrong way round": lambda p, q, x, rng: decided(p, q, x, rng, after=residual(q, p)),
    "u reused": lambda p, q, x, rng: decided(p, q, x, same(rng)),
    "greedy accept": lambda p, q, x, rng: decided(p, q, x, rng, kept=float(p[x] >= q[x])),
    "ratio upside down": lambda p, q, x, rng: decided(p, q, x, rng, kept=over(q[x], p[x])),
    "accepts by p alone": lambda p, q, x, rng: decided(p, q, x, rng, kept=p[x]),
    "always accepts": lambda p, q, x, rng: decided(p, q, x, rng, kept=1.0),
    "never accepts": lambda p, q, x, rng: decided(p, q, x, rng, kept=0.0, after=p),
}


class Single(LawExercise):
    name, title, functions = "accept", "Accept or correct one token", ("accept_or_correct",)
    dims, cells, rules = 2, 12, RULES
    helpers = (draw,)
    task = (
        "`token` was drawn from `q`. Keep it, or draw another one, so that what is returned has the law `p` exactly, "
        "and as many tokens as possible are kept. Return `(accepted, token)`."
    )
    starter = '''
def accept_or_correct(p, q, token, rng):
    """p, q: lists of probabilities; token: drawn from q; rng(): a new random number from 0 to 1 at each call."""
    raise NotImplementedError("write me")
'''
    mistakes: ClassVar[Mapping[str, str]] = {
        "target instead of residual": "after a rejection it draws from p, not from norm((p - q)+)",
        "draft instead of residual": "after a rejection it draws from q",
        "residual not renormalised": "it draws from (p - q)+ without dividing by its sum",
        "residual the wrong way round": "it draws from norm((q - p)+)",
        "u reused": "the random number that rejected also draws the next token",
        "greedy accept": "it keeps the token just where p >= q",
        "ratio upside down": "it keeps with min(1, q/p)",
        "accepts by p alone": "it keeps with probability p instead of min(1, p/q)",
        "always accepts": "it keeps every token, so that its law is q",
        "never accepts": "it draws from p and keeps nothing: exact, and no faster than plain decoding",
    }

    def cases(self, chance: random.Random) -> Sequence[Case]:
        pairs = [*PAIRS[:3], *chance.sample(PAIRS[3:], 2)]
        return [single_case(fraction(pair[0]), fraction(pair[1]), chance) for pair in pairs]

    def emitted(self, output: Output, draft: Tokens) -> tuple[Tokens, int]:
        if not isinstance(output, tuple) or len(output) != 2 or output[0] not in ("true", "false"):
            raise FailedError(f"it returns {output!r:.60}, not (accepted, token)")
        vocabulary, drafted = draft
        if output[0] == "true" and output[1] != drafted:
            raise FailedError(f"it returns {output[1]!r:.60} as accepted where {drafted} was drafted")
        return (token(output[1], vocabulary),), int(output[0] == "true")


def single_case(p: Distribution, q: Distribution, chance: random.Random) -> Case:
    order = chance.sample(range(len(p)), len(p))
    p, q = renamed(p, order), renamed(q, order)
    drafts = [
        Situation(weight, (len(p), drafted), (floats(p), floats(q), drafted))
        for drafted, weight in enumerate(q)
        if weight
    ]
    return Case({(): p}, {(): q}, tuple(drafts), f"A draft from {written(q)}")
