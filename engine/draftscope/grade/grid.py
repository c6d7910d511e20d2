"""The law of a function's output, by enumeration over the random numbers that it is given.

A function that compares each random number with thresholds is constant between them. If they are multiples of 1/K,
[0, 1)^d falls into K^d boxes in which it is constant, and its law is a count of boxes: a rational number, exact. In
every box it is called at two points, chosen anew at each grading. Where they differ, thresholds lie elsewhere, or the
function draws numbers of its own.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

from draftscope.base.errors import DraftscopeError

Output: TypeAlias = Any  # a value of JSON, with tuples for lists
Law: TypeAlias = Mapping[Output, Fraction]
Answered: TypeAlias = Callable[[Sequence[Sequence[float]]], list[Any]]  # random numbers of calls -> results
AGAIN = 16  # calls with the same numbers: one of two values that it drew itself would be the same in all by 1 in 65,536
INNER = (0.1, 0.9)  # where in a cell a point may lie: rounding moves a threshold by less

OWN_NUMBERS = "it returns different things for the same random numbers: draw with rng() only"
ELSEWHERE = "its output changes where no threshold of this exercise lies: take a new rng() for each decision"
TOO_MANY = "it asks for more than {} random numbers: one for each drafted token, and one to draw a token"


class FailedError(DraftscopeError):
    """A call that returned nothing, or numbers that cannot be judged; the sentence is the student's verdict."""


def law(answered: Answered, dims: int, cells: int) -> Law:
    """Raises `FailedError` where a call fails, and where the law cannot be found."""
    boxes = list(product(range(cells), repeat=dims))
    points = _points(boxes, cells)
    outputs = [value(result, dims) for result in answered(points)]
    others = [value(result, dims) for result in answered(_points(boxes, cells))]
    for point, one, other in zip(points, outputs, others, strict=True):
        if one != other:
            again = {value(result, dims) for result in answered([point] * AGAIN)}
            raise FailedError(ELSEWHERE if again == {one} else OWN_NUMBERS)
    return {output: Fraction(count, len(boxes)) for output, count in Counter(outputs).items()}


def _points(boxes: Sequence[Sequence[int]], cells: int) -> list[list[float]]:
    chance = random.SystemRandom()
    return [[(cell + chance.uniform(*INNER)) / cells for cell in box] for box in boxes]


def value(result: Any, dims: int) -> Output:
    """What a call returned, or `FailedError` with the reason."""
    if result == "more numbers":
        raise FailedError(TOO_MANY.format(dims))
    if not isinstance(result, list) or len(result) != 1:
        raise FailedError(f"it fails: {result if isinstance(result, str) else 'it returns nothing'}")
    return frozen(result[0])


def frozen(returned: Any) -> Output:
    """The same with tuples for lists and True apart from 1, so that it can be counted."""
    if isinstance(returned, list):
        return tuple(frozen(item) for item in returned)
    if isinstance(returned, dict):
        return f"a {returned.get('type', 'dict')}"
    return str(returned).lower() if isinstance(returned, bool) else returned


def own_law(function: Callable[..., Any], arguments: Sequence[Any], cells: int) -> Law:
    """The same of a function of this program, whose thresholds are known to be multiples of 1 / `cells`: random numbers
    are tried as far as it asks for them."""
    counts = Counter[tuple[Output, int]]()  # by the numbers that were drawn
    begun: list[tuple[float, ...]] = [()]
    while begun:
        drawn = begun.pop()
        try:
            output = frozen(thawed(function(*arguments, iter(drawn).__next__)))
        except StopIteration:
            begun += [(*drawn, (cell + 0.5) / cells) for cell in range(cells)]
            continue
        counts[output, len(drawn)] += 1
    outcome: dict[Output, Fraction] = defaultdict(Fraction)
    for (output, numbers), count in counts.items():
        outcome[output] += Fraction(count, cells**numbers)
    return dict(outcome)


def thawed(returned: Any) -> Any:
    return [thawed(item) for item in returned] if isinstance(returned, list | tuple) else returned
