"""Acceptance over the rounds of a text: in windows, after a kept and after a refused guess, and by length of a draft.

One mean says too little where acceptance drifts, or where guesses are not independent: a length that the mean makes the
best may not be it. over-time.js on the page says the same; a test holds both to one table of cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from draftscope.log.entries import LoggedRound

WINDOWS = 24
FEW = 20  # guesses, below which nothing is said about dependence
Z = 3.0  # standard errors apart: by chance in one text of 370


class JudgedRound(Protocol):
    """A round, or several that were counted together."""

    @property
    def drafted(self) -> int: ...

    @property
    def accepted(self) -> int: ...


@dataclass(frozen=True)
class Window:
    """Neighbouring rounds; or what was counted together, one after the other."""

    first: int  # round, from 0
    rounds: int
    drafted: int
    accepted: int


@dataclass(frozen=True)
class AfterGuess:
    """How many guesses are kept, by what became of the guess before; a guess that was never judged is none."""

    kept_after_kept: int = 0
    after_kept: int = 0
    kept_after_refused: int = 0
    after_refused: int = 0

    @property
    def z(self) -> float:
        """Standard errors between both shares; 0 where there are too few guesses."""
        if min(self.after_kept, self.after_refused) < FEW:
            return 0.0
        total = self.after_kept + self.after_refused
        share = (self.kept_after_kept + self.kept_after_refused) / total
        error = math.sqrt(share * (1 - share) * (1 / self.after_kept + 1 / self.after_refused))
        apart = self.kept_after_kept / self.after_kept - self.kept_after_refused / self.after_refused
        return apart / error if error else 0.0

    @property
    def dependent(self) -> bool:
        return abs(self.z) > Z


@dataclass(frozen=True)
class AtLength:
    """Tokens a round with drafts of one length, the target's own with them."""

    length: int
    rounds: int  # that drafted so many
    measured: float
    by_mean: float  # if every guess were kept with the mean acceptance, independently


def windows(rounds: Sequence[JudgedRound], most: int = WINDOWS) -> list[Window]:
    """At most so many windows of as many rounds each; the last has what is left."""
    size = max(1, math.ceil(len(rounds) / most))
    parts = [(first, rounds[first : first + size]) for first in range(0, len(rounds), size)]
    return [
        Window(first, len(part), sum(round_.drafted for round_ in part), sum(round_.accepted for round_ in part))
        for first, part in parts
    ]


def guesses(rounds: Sequence[LoggedRound]) -> list[bool]:
    """Every guess that was judged, in order: kept or refused. In a tree, a depth is a guess."""
    judged: list[bool] = []
    for round_ in rounds:
        judged += [True] * round_.accepted + [False] * (round_.accepted < round_.levels)
    return judged


def after_guess(rounds: Sequence[LoggedRound]) -> AfterGuess:
    """The guesses of one text, each beside the one before."""
    pairs = list(pairwise(guesses(rounds)))
    after_kept = [kept for before, kept in pairs if before]
    after_refused = [kept for before, kept in pairs if not before]
    return AfterGuess(sum(after_kept), len(after_kept), sum(after_refused), len(after_refused))


def by_length(rounds: Sequence[LoggedRound]) -> list[AtLength]:
    """For every length that was drafted: what its rounds wrote if drafts end there, beside what the mean says."""
    judged = guesses(rounds)
    mean = sum(judged) / len(judged) if judged else 0.0
    lengths = []
    for length in range(1, max((round_.levels for round_ in rounds), default=0) + 1):
        whole = [min(round_.accepted, length) for round_ in rounds if round_.levels >= length]
        by_mean = sum(mean**depth for depth in range(length + 1))
        lengths.append(AtLength(length, len(whole), 1 + sum(whole) / len(whole), by_mean))
    return lengths


def best_length(tokens: Sequence[float], step: float, check: float) -> int:
    """The length from 1 whose rounds write most in a time; `step` and `check` are what a draft step and the rest of a
    round take, in one unit. tokens: [lengths] tokens a round."""
    return 1 + max(range(len(tokens)), key=lambda place: tokens[place] / ((place + 1) * step + check))
