"""Exercise 3: two siblings of a tree, drawn without replacement (2402.12374)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any, ClassVar

from draftscope.grade.enumerated import Case, Distribution, LawExercise, Situation, Tokens, fraction, renamed, token
from draftscope.grade.exercise import floats, written
from draftscope.grade.grid import FailedError, Output
from draftscope.grade.single import Rng, Row, normalised, over, residual, same
from draftscope.grade.starter_drawing import draw

PAIRS = [  # of which every threshold, right or wrong, is a multiple of 1/12
    ("1/6 1/3 1/2", "2/3 1/6 1/6"), ("1/2 1/4 1/4", "1/4 1/4 1/2"),
]  # fmt: skip


def without(q: Row, gone: int) -> list[float]:
    return normalised([0.0 if x == gone else share for x, share in enumerate(q)])


def descended(
    p: Row,
    q: Row,
    children: Sequence[int],
    rng: Rng,
    *,
    ratio: Callable[[float, float], float] = over,
    next_p: Callable[[Row, Row], Row] = residual,
    next_q: Callable[[Row, int], Row] = without,
    final: Callable[[Row, Row], Row] = lambda left, _: left,
    one_number: bool = False,
    most: int = 2,
) -> tuple[int | None, int]:
    """The rule, with a place for each mistake."""
    left, drawn_from = list(p), list(q)
    numbers = same(rng) if one_number else rng
    for place, child in enumerate(children[:most]):
        if numbers() < ratio(left[child], drawn_from[child]):
            return place, child
        left, drawn_from = list(next_p(left, drawn_from)), list(next_q(drawn_from, child))
    return None, draw(final(left, p), numbers)


def variant(**places: Any) -> Callable[..., Any]:
    return lambda *arguments: descended(*arguments, **places)


RULES: dict[str, Callable[..., Any]] = {
    "right": descended,
    "siblings with replacement": variant(next_q=lambda q, _: q),
    "target not reduced": variant(next_p=lambda p, _: p),
    "target at the end": variant(final=lambda _, p: p),
    "u reused": variant(one_number=True),
    "ratio upside down": variant(ratio=lambda p, q: over(q, p)),
    "greedy accept": variant(ratio=lambda p, q: float(p >= q)),
    "only the first sibling": variant(most=1),
}


class Siblings(LawExercise):
    name, title, functions = "tree", "Verify two siblings of a tree", ("verify_siblings",)
    dims, cells, rules = 3, 12, RULES
    helpers = (draw,)
    task = (
        "`children` are two tokens drawn from `q` without replacement: the second from `q` without the first one, "
        "renormalised. Verify them in turn. Return `(place, token)`: the place of the child that is kept, or None and "
        "a token of the target's own. The law of the token must be `p` exactly."
    )
    starter = '''
def verify_siblings(p, q, children, rng):
    """p, q: lists of probabilities; children: two tokens in the order they were drawn; rng(): a new random number."""
    raise NotImplementedError("write me")
'''
    mistakes: ClassVar[Mapping[str, str]] = {
        "siblings with replacement": "the second child is judged by q as if the first were still in it",
        "target not reduced": "after the first rejection p stays as it was, and does not become norm((p - q)+)",
        "target at the end": "after both were rejected it draws from p, not from what is left of it",
        "u reused": "one random number serves all decisions",
        "ratio upside down": "it keeps with min(1, q/p)",
        "greedy accept": "it keeps a child just where p >= q",
        "only the first sibling": "the second child is never looked at: exact, and slower",
    }

    def cases(self, chance: random.Random) -> Sequence[Case]:
        return [sibling_case(fraction(p), fraction(q), chance) for p, q in PAIRS]

    def emitted(self, output: Output, draft: Tokens) -> tuple[Tokens, int]:
        if not isinstance(output, tuple) or len(output) != 2 or output[0] not in (None, 0, 1):
            raise FailedError(f"it returns {output!r:.60}, not (place, token)")
        vocabulary, children = draft[0], draft[1:]
        if output[0] is not None and output[1] != children[output[0]]:
            raise FailedError(f"it keeps child {output[0]} and returns {output[1]!r:.60}, not its token")
        return (token(output[1], vocabulary),), int(output[0] is not None)


def sibling_case(p: Distribution, q: Distribution, chance: random.Random) -> Case:
    order = chance.sample(range(len(p)), len(p))
    p, q = renamed(p, order), renamed(q, order)
    pairs = [
        Situation(q[one] * q[two] / (1 - q[one]), (len(p), one, two), (floats(p), floats(q), [one, two]))
        for one, two in permutations(range(len(p)), 2)
        if q[one] * q[two]
    ]
    return Case({(): p}, {(): q}, tuple(pairs), f"Two siblings from {written(q)}")
