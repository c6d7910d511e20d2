"""What all tests say together, and the numbers a person reads: scores, ranks, repetitions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from draftscope.servers.audit.bets import BINS, ContextBet, RankBet, RepetitionBet, ScoreBet, TokenBet
from draftscope.servers.audit.facts import Facts
from draftscope.servers.audit.plan import Allowance
from draftscope.servers.audit.warp import Floats

WEIGHTS = {"score": 0.25, "ranks": 0.2, "tokens": 0.1, "contexts": 0.1, "repetition": 0.15, "positions": 0.2}
IMPOSSIBLE = 500.0  # nats of evidence for a token that the settings exclude: more than any threshold


@dataclass(frozen=True)
class PositionResult:
    """All texts' tokens at one position, counted from 1."""

    position: int
    tokens: int
    score: float  # mean of log p - E log p, nats
    error: float  # its standard error under the target's own distributions
    z: float
    evidence: float  # log of the wealth of the bets on this position alone, nats


@dataclass
class Evidence:
    """Takes texts one by one. `total`, the log of a test supermartingale, reaches log(1/a) with chance a at most."""

    allowance: Allowance
    tokens: int  # of a text, at most
    texts: int = 0
    counted: int = 0  # tokens
    outside: int = 0  # tokens that the settings exclude
    at_edge: int = 0  # tokens at the edge of a truncation, from which nothing is concluded
    variance: float = 0.0

    def __post_init__(self) -> None:
        self._sums = np.zeros((3, self.tokens))  # [3, T]: counted, score, variance
        self.score, self.ranks = ScoreBet(self.allowance, self.tokens), RankBet(self.allowance, self.tokens)
        self.often, self.contexts = TokenBet(self.allowance), ContextBet(self.allowance)
        self.repetition = RepetitionBet(self.allowance)

    def take(self, facts: Facts) -> None:
        for bet in (self.score, self.ranks, self.often, self.contexts, self.repetition):
            bet.take(facts)
        n = len(facts.tokens)
        self._sums[:, :n] += np.stack([facts.counted, facts.score, facts.variance])
        self.texts += 1
        self.counted += int(facts.counted.sum())
        self.outside += int(facts.outside.sum())
        self.at_edge += n - int(facts.counted.sum()) - int(facts.outside.sum())
        self.variance += float(facts.variance.sum())

    @property
    def by_position(self) -> Floats:
        """[T] log wealth of the bets on one position alone, the mean of score and ranks."""
        return np.logaddexp(self.score.by_position, self.ranks.by_position) - math.log(2)

    @property
    def parts(self) -> dict[str, float]:
        """log wealth of each kind of bet, nats."""
        places = self.by_position
        return {
            "score": self.score.wealth,
            "ranks": self.ranks.wealth,
            "tokens": self.often.wealth,
            "contexts": self.contexts.wealth,
            "repetition": self.repetition.wealth,
            "positions": float(np.logaddexp.reduce(places)) - math.log(len(places)),
        }

    @property
    def total(self) -> float:
        """log of the wealth of all bets together, nats."""
        parts = self.parts
        logs = [math.log(WEIGHTS[name]) + parts[name] for name in WEIGHTS]
        return float(np.logaddexp.reduce(logs)) + IMPOSSIBLE * self.outside

    @property
    def positions(self) -> list[PositionResult]:
        results = []
        for t, (counted, score, variance) in enumerate(self._sums.T):
            if counted:
                z = float(score / math.sqrt(variance)) if variance > 0 else 0.0
                error = math.sqrt(variance) / counted
                results.append(
                    PositionResult(t + 1, int(counted), score / counted, error, z, float(self.by_position[t]))
                )
        return results

    def scored(self, first: int = 1) -> tuple[float, float]:
        """Mean score in nats a token and its z, of the tokens from position `first` on."""
        counted, score, variance = self._sums[:, first - 1 :].sum(-1)
        return float(score / max(counted, 1)), float(score / math.sqrt(variance)) if variance > 0 else 0.0

    @property
    def histogram(self) -> list[int]:
        """Ranks by eighths of the probability mass, the most probable tokens first."""
        return [int(count) for count in self.ranks.counts[0]]

    @property
    def chi_square(self) -> tuple[float, int, float]:
        """Statistic, degrees of freedom and p-value of the histogram against uniform: valid at a fixed number of texts
        only, so shown and not decided by."""
        from scipy import stats  # not at the top: it takes longer to import than the rest of this module

        if not self.counted:
            return 0.0, BINS - 1, 1.0
        result = stats.chisquare(self.ranks.counts[0])
        return float(result.statistic), BINS - 1, float(result.pvalue)
