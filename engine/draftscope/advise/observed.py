"""What rounds of one setting gave: tokens accepted and tokens drafted, by prompt; and acceptance with its intervals.

No time is in here. A prompt's rounds belong together: intervals come from resampling prompts, not rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftscope.measure.bench.statistics import Interval, resampled

RESAMPLES = 1000
TYPED_ROUNDS = 4000  # that stand for a distribution which is known exactly: shares are right to 1 / 4000


@dataclass(frozen=True)
class PromptRounds:
    """The rounds of one prompt, at least one."""

    accepted: NDArray[np.int64]  # [R] drafted tokens that were accepted
    nodes: NDArray[np.int64]  # [R] drafted nodes
    levels: NDArray[np.int64]  # [R] draft steps: the depth of the deepest node

    def first(self, tokens: int) -> PromptRounds:
        """The rounds that write the first `tokens` tokens, or all if they write fewer."""
        count = int(np.searchsorted(np.cumsum(self.accepted + 1), tokens)) + 1
        return PromptRounds(self.accepted[:count], self.nodes[:count], self.levels[:count])


@dataclass(frozen=True)
class Observed:
    """The rounds of all prompts, at least one."""

    prompts: tuple[PromptRounds, ...]

    @property
    def accepted(self) -> NDArray[np.int64]:
        return np.concatenate([prompt.accepted for prompt in self.prompts])

    @property
    def nodes(self) -> NDArray[np.int64]:
        return np.concatenate([prompt.nodes for prompt in self.prompts])

    @property
    def levels(self) -> NDArray[np.int64]:
        return np.concatenate([prompt.levels for prompt in self.prompts])

    def first(self, tokens: int) -> Observed:
        """The rounds that write the first `tokens` tokens of each prompt's answer."""
        return Observed(tuple(prompt.first(tokens) for prompt in self.prompts))

    @property
    def rounds(self) -> int:
        return len(self.accepted)

    @property
    def tau(self) -> float:
        """Tokens in a round: the accepted ones and the target's own."""
        return 1 + float(self.accepted.mean())

    @property
    def max_levels(self) -> int:
        return int(self.levels.max())


def tau_interval(observed: Observed) -> Interval:
    """tau with a bootstrap interval over prompts; with one prompt it has no width, which is not certainty."""
    sums = np.array([prompt.accepted.sum() for prompt in observed.prompts], dtype=float)
    counts = np.array([len(prompt.accepted) for prompt in observed.prompts], dtype=float)
    picks = resampled(len(sums), RESAMPLES)
    return Interval.of(observed.tau, 1 + sums[picks].sum(1) / counts[picks].sum(1))


def conditional_alpha(observed: Observed) -> list[Interval]:
    """For each position, the share accepted of the tokens that were drafted there and reached; positions that no round
    reached are left out. Meaningful for chains: in a tree it is the share of levels."""
    picks = resampled(len(observed.prompts), RESAMPLES)
    rates = []
    for position in range(observed.max_levels):
        counts = np.array([_reached(prompt, position) for prompt in observed.prompts], dtype=float)  # [P, 2]
        if counts[:, 1].sum() == 0:
            break
        hits, of = counts[picks, 0].sum(1), counts[picks, 1].sum(1)
        drawn = hits[of > 0] / of[of > 0]
        rates.append(Interval.of(counts[:, 0].sum() / counts[:, 1].sum(), drawn))
    return rates


def typed(alpha: Sequence[float], gamma: int) -> Observed:
    """Rounds of a chain whose acceptance is known: alpha_k is the chance that token k is accepted if all before it
    are. A single value holds at every position."""
    rates = np.array([alpha[0]] * gamma if len(alpha) == 1 else alpha[:gamma])
    survival = np.cumprod(rates)  # P(at least k are accepted)
    chance = (np.arange(TYPED_ROUNDS) + 0.5) / TYPED_ROUNDS
    accepted = (chance[:, None] < survival).sum(1)
    same = np.full(TYPED_ROUNDS, len(rates))
    return Observed((PromptRounds(accepted, same, same),))


def _reached(prompt_rounds: PromptRounds, position: int) -> tuple[int, int]:
    reached = (prompt_rounds.levels > position) & (prompt_rounds.accepted >= position)
    return int((reached & (prompt_rounds.accepted > position)).sum()), int(reached.sum())
