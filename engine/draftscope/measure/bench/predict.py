"""Predicts the speedup of a whole run from the parts of its rounds: S = tau / (gamma c + v + o), and the prefill.

tau is the number of tokens in a round, gamma c the cost of proposing, v the cost of verification at that width, and o
that of the rest of the round: accept, commit, host, and what lies between rounds, where no stage's clock runs. The unit
of all three is one round of plain decoding, so plain's own terms sum to 1. A run of n tokens takes what comes before
its first round and then n / tau rounds. All terms are medians of single parts and none is a whole run's time, so
measured and predicted differ by how far a run's rounds are from the median round.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.measure.bench.rounds import MeasuredRounds


@dataclass(frozen=True)
class Prediction:
    """The terms, in rounds of plain decoding. tau is per sequence."""

    tau: float
    gamma_c: float
    v: float
    o: float
    tokens: int = 1  # of each sequence
    before: float = 0.0  # set-up and prefill
    plain_before: float = 0.0  # the same of plain decoding

    @property
    def cost(self) -> float:
        """Of a round."""
        return self.gamma_c + self.v + self.o

    @property
    def steady(self) -> float:
        """S of rounds alone, without what comes before them."""
        return self.tau / self.cost

    @property
    def ratio(self) -> float:
        """S of whole runs."""
        return (self.plain_before + self.tokens) / (self.before + self.tokens / self.steady)


@dataclass(frozen=True)
class PartTimes:
    """Rounds of one system in one cell, and the milliseconds before the first of them."""

    rounds: MeasuredRounds
    before_ms: float = 0.0


def predict(speculative: PartTimes, plain: PartTimes, tokens: int) -> Prediction:
    """The terms for runs of `tokens`, from a drafter's timings and plain's in one cell."""
    rounds, unit = speculative.rounds, plain.rounds.round_ms
    stages = rounds.stage_ms()
    rest = stages["accept"] + stages["commit"] + stages["host"] + rounds.between_ms
    return Prediction(
        tau=rounds.tokens_per_round(),
        gamma_c=stages["propose"] / unit,
        v=stages["verify"] / unit,
        o=rest / unit,
        tokens=tokens,
        before=speculative.before_ms / unit,
        plain_before=plain.before_ms / unit,
    )
