"""Compares the two most different trees among the arms, a deep narrow and a wide shallow one, by kind of text.

If the interval of their speed ratio contains 1, the two cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from draftscope.drafters.options import TreeShape
from draftscope.measure.bench.statistics import LEVEL, Interval

LEAST = 6  # pairs of runs: fewer are inconclusive at 95%, since a fair coin often puts them all on one side


class Wants(StrEnum):
    """The tree that a kind of text is written faster with."""

    DEEP = "deep narrow"
    WIDE = "wide shallow"
    EITHER = "cannot be told apart"


CLAIM: Mapping[str, Wants] = {"manual": Wants.DEEP, "screenplay": Wants.WIDE}


@dataclass(frozen=True)
class ComparedTrees:
    """The speed of a deep narrow tree over that of a wide shallow one, on one kind of text."""

    kind: str
    temperature: float
    deep: str
    wide: str
    deep_over_wide: Interval  # within the same repeat of the same prompt
    pairs: int  # of runs

    @property
    def wants(self) -> Wants:
        """The tree that wrote this kind of text faster."""
        if self.pairs < LEAST:
            return Wants.EITHER
        if self.deep_over_wide.low > 1:
            return Wants.DEEP
        return Wants.WIDE if self.deep_over_wide.high < 1 else Wants.EITHER


def unlike(shapes: Mapping[str, TreeShape | None]) -> tuple[str, str] | None:
    """The names of the deepest tree (if tied, the narrowest) and of the widest (if tied, the shallowest).

    Chains do not count. None if no two trees of the arms are such that one is deeper and the other wider.
    """
    trees = {name: form(shape) for name, shape in shapes.items() if shape and form(shape)[1] > 1}
    if not trees:
        return None
    deep = max(trees, key=lambda name: (trees[name][0], -trees[name][1]))
    wide = max(trees, key=lambda name: (trees[name][1], -trees[name][0]))
    deeper, wider = trees[deep][0] > trees[wide][0], trees[wide][1] > trees[deep][1]
    return (deep, wide) if deeper and wider else None


def form(shape: TreeShape) -> tuple[int, int]:
    """Levels of a full tree, and the nodes of its widest level."""
    return len(shape), max(prod(shape[: level + 1]) for level in range(len(shape)))


def answer(compared: Sequence[ComparedTrees]) -> str:
    """Whether manuals are written faster with deep narrow trees and screenplays with wide shallow ones."""
    found = {each.kind: each for each in compared}
    if not all(kind in found for kind in CLAIM):
        return f"Not asked: the kinds {' and '.join(CLAIM)} were not both measured."
    results = "; ".join(_result(found[kind]) for kind in CLAIM)
    against = [kind for kind, claimed in CLAIM.items() if found[kind].wants not in (claimed, Wants.EITHER)]
    if against:
        verdict = f"No, not of {' or of '.join(f'{kind}s' for kind in against)} on this pair"
    elif all(found[kind].wants == claimed for kind, claimed in CLAIM.items()):
        verdict = "Yes, on this pair"
    else:
        verdict = "It cannot be told on this pair"
    return f"{verdict}: {results} ({LEVEL:.0%} intervals)."


def _result(found: ComparedTrees) -> str:
    ratio = found.deep_over_wide
    speed = f"{found.deep} over {found.wide} {ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
    few = f" by {found.pairs} of at least {LEAST} runs" if found.pairs < LEAST else ""
    return f"{found.kind}s, {speed}, {'they' if found.wants is Wants.EITHER else 'want'} {found.wants}{few}"
