"""What a round of speculation costs and writes in a batch, and up to which batch a server drafts."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise, takewhile

import numpy as np

from draftscope.base.costs import alpha_of


@dataclass(frozen=True)
class Speculation:
    """`seconds[n - 1]` is a round of n sequences, `chances[k]` that it writes k tokens of a sequence. Above `most`
    sequences at once the server decodes plainly."""

    seconds: tuple[float, ...]
    chances: tuple[float, ...]
    most: int

    @property
    def tau(self) -> float:
        """Tokens a round, on average."""
        return sum(tokens * chance for tokens, chance in enumerate(self.chances))

    @cached_property
    def _cumulative(self) -> list[float]:
        return list(accumulate(self.chances[:-1]))

    def draw(self, draws: random.Random) -> int:
        """The tokens of one sequence in one round."""
        return bisect_right(self._cumulative, draws.random())

    def repeated(self, rounds: int) -> Speculation:
        """That many rounds as one."""
        size = rounds * (len(self.chances) - 1) + 1
        chances = np.fft.irfft(np.fft.rfft(self.chances, size) ** rounds, size).clip(0.0)
        return Speculation(tuple(rounds * one for one in self.seconds), tuple(chances.tolist()), self.most)


def chances_of(kept: Sequence[float]) -> tuple[float, ...]:
    """By tokens of a round, where `kept[k]` is the chance that more than k drafted tokens are kept."""
    return 0.0, *(more - fewer for more, fewer in pairwise((1.0, *kept, 0.0)))


def chances_of_chain(tau: float, depth: int) -> tuple[float, ...]:
    """Of a draft that is accepted alike at every position and writes `tau` tokens a round."""
    alpha = min(alpha_of(tau, depth), 1.0)
    return chances_of([alpha**k for k in range(1, depth + 1)])


def pays_up_to(plain: Sequence[float], seconds: Sequence[float], tau: float) -> int:
    """The largest batch such that in it and in all smaller ones a round is cheaper than `tau` plain steps."""
    pairs = zip(plain, seconds, strict=True)
    return len(list(takewhile(lambda pair: pair[1] < tau * pair[0], pairs)))
