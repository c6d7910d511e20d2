"""Exercise 2: a whole chain, with top-p and the bonus token."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, ClassVar

from draftscope.grade.enumerated import Case, Distribution, LawExercise, Situation, Tokens, fraction, token
from draftscope.grade.exercise import floats
from draftscope.grade.grid import FailedError, Output
from draftscope.grade.single import Rng, Row, over, positive, residual, same
from draftscope.grade.starter_drawing import draw, keep_top

Rows = Sequence[Row]
GAMMA = 2
PAIRS = [("1/2 1/2", "3/4 1/4"), ("1/4 3/4", "1/2 1/2"), ("1/3 2/3", "2/3 1/3"), ("1/4 3/4", "3/4 1/4")]
CUT = [("1/2 1/4 1/4", "1/4 1/2 1/4"), ("1/4 1/2 1/4", "1/2 1/4 1/4")]  # top-p 3/4 leaves the first two tokens
TOP_P = Fraction(3, 4)


@cache
def top(row: tuple[float, ...], top_p: float) -> Row:
    """A law asks for the same few rows tens of thousands of times."""
    return keep_top(row, top_p)


def verified(
    p_rows: Rows,
    q_rows: Rows,
    drafted: Sequence[int],
    top_p: float,
    rng: Rng,
    *,
    cut: str = "pq",
    ratio: Callable[[float, float], float] = over,
    after: Callable[[Rows, Rows, int], Row] = lambda p, q, at: residual(p[at], q[at]),
    bonus: Callable[[Rows, Rows], Row | None] = lambda p, _: p[-1],
    stops: bool = True,
    one_number: bool = False,
) -> list[int]:
    """The rule, with a place for each mistake."""
    p = [top(tuple(row), top_p) for row in p_rows] if "p" in cut else p_rows
    q = [top(tuple(row), top_p) for row in q_rows] if "q" in cut else q_rows
    numbers = same(rng) if one_number else rng
    kept: list[int] = []
    for at, x in enumerate(drafted):
        if numbers() < ratio(p[at][x], q[at][x]):
            kept.append(x)
        elif stops:
            return [*kept, draw(after(p, q, at), numbers)]
    last = bonus(p, q)
    return kept if last is None else [*kept, draw(last, numbers)]


def variant(**places: Any) -> Callable[..., Any]:
    return lambda *arguments: verified(*arguments, **places)


RULES: dict[str, Callable[..., Any]] = {
    "right": verified,
    "target instead of residual": variant(after=lambda p, _, at: p[at]),
    "residual not renormalised": variant(after=lambda p, q, at: positive(p[at], q[at])),
    "residual of the wrong row": variant(after=lambda p, q, at: residual(p[at + 1], q[min(at + 1, GAMMA - 1)])),
    "u reused": variant(one_number=True),
    "greedy accept": variant(ratio=lambda p, q: float(p >= q)),
    "ratio upside down": variant(ratio=lambda p, q: over(q, p)),
    "q before top-p": variant(cut="p"),
    "top-p forgotten": variant(cut=""),
    "bonus from q": variant(bonus=lambda _, q: q[-1]),
    "bonus from the wrong row": variant(bonus=lambda p, _: p[-2]),
    "bonus dropped": variant(bonus=lambda *_: None),
    "goes on after a rejection": variant(stops=False),
}


class Chain(LawExercise):
    name, title, functions = "chain", "Verify a chain of drafted tokens", ("verify_chain",)
    dims, cells, rules = GAMMA + 1, 12, RULES
    helpers = (draw, keep_top)
    task = (
        "`draft` was drawn token by token from `q_rows`, after top-p. Row i is the law after i of its tokens; `p_rows` "
        "has one row more than `q_rows`; both are given before top-p. Return the list of tokens that the round writes: "
        "those that are kept, and one of the target's own. Its law must be the target's after top-p."
    )
    starter = '''
def verify_chain(p_rows, q_rows, draft, top_p, rng):
    """p_rows, q_rows: lists of probabilities, before top-p; draft: tokens; rng(): a new random number at each call."""
    raise NotImplementedError("write me")
'''
    mistakes: ClassVar[Mapping[str, str]] = {
        "target instead of residual": "after a rejection it draws from p, not from norm((p - q)+)",
        "residual not renormalised": "it draws from (p - q)+ without dividing by its sum",
        "residual of the wrong row": "it takes the rows after the rejected token",
        "u reused": "one random number serves the whole round",
        "greedy accept": "it keeps a token just where p >= q",
        "ratio upside down": "it keeps with min(1, q/p)",
        "q before top-p": "p is cut by top-p, and q is not, though the draft was drawn after it",
        "top-p forgotten": "neither is cut",
        "bonus from q": "after a draft that was kept whole it draws from the draft's law",
        "bonus from the wrong row": "the bonus is drawn from the row before the last",
        "bonus dropped": "a draft that was kept whole is followed by no token: exact, and slower",
        "goes on after a rejection": "later tokens are kept after one was rejected",
    }

    def cases(self, chance: random.Random) -> Sequence[Case]:
        first = [chance.choice(PAIRS[:2]) for _ in range(2)]
        return [
            chain_case([PAIRS[0], PAIRS[1], PAIRS[3]], Fraction(1), [PAIRS[0], PAIRS[2], PAIRS[1], PAIRS[3]]),
            chain_case([CUT[0], CUT[1], CUT[0], CUT[0]], TOP_P, [CUT[1]] * 9),
            chain_case([*first, chance.choice(PAIRS)], Fraction(1), [chance.choice(PAIRS) for _ in range(4)]),
        ]

    def emitted(self, output: Output, draft: Tokens) -> tuple[Tokens, int]:
        if not isinstance(output, tuple) or not output:
            raise FailedError(f"it returns {output!r:.60}, not a list of tokens")
        if len(output) > GAMMA + 1:
            raise FailedError(f"it returns {len(output)} tokens for {GAMMA} drafted ones; one more can be")
        vocabulary, drafted = draft[0], draft[1:]
        tokens = tuple(token(item, vocabulary) for item in output)
        same = [one == other for one, other in zip(tokens, drafted, strict=False)]
        return tokens, [*same, False].index(False)


def chain_case(pairs: Sequence[tuple[str, str]], top_p: Fraction, last: Sequence[tuple[str, str]]) -> Case:
    """Two drafted tokens: the pair of the first, one for each first token, and p after each two of them."""
    vocabulary = len(fraction(pairs[0][0]))
    places = [(), *((x,) for x in range(vocabulary))]
    raw_p = {place: fraction(pair[0]) for place, pair in zip(places, pairs, strict=False)}
    raw_q = {place: fraction(pair[1]) for place, pair in zip(places, pairs, strict=False)}
    ends = list(product(range(vocabulary), repeat=GAMMA))
    raw_p |= {place: fraction(pair[0]) for place, pair in zip(ends, last, strict=True)}
    p, q = ({place: cut(row, top_p) for place, row in rows.items()} for rows in (raw_p, raw_q))
    situations = []
    for one, two in ends:
        weight = q[()][one] * q[(one,)][two]
        if weight:
            p_rows = [floats(raw_p[place]) for place in ((), (one,), (one, two))]
            q_rows = [floats(raw_q[place]) for place in ((), (one,))]
            arguments = (p_rows, q_rows, [one, two], float(top_p))
            situations.append(Situation(weight, (vocabulary, one, two), arguments))
    words = f"Two drafted tokens, top-p {top_p}" if top_p < 1 else "Two drafted tokens"
    return Case(p, q, tuple(situations), words)


def cut(row: Distribution, top_p: Fraction) -> Distribution:
    """top-p, exactly."""
    kept = [share > 0 for share in keep_top(floats(row), float(top_p))]
    total = sum((share for share, on in zip(row, kept, strict=True) if on), Fraction())
    return tuple(share / total if on else Fraction() for share, on in zip(row, kept, strict=True))
