"""Predicts the speedup from the stages of single rounds: S = tau / (gamma c + v + o).

tau is the number of tokens in a round, gamma c the cost of proposing, v the cost of verification at that width, and o
that of the rest of the round (accept, commit, host). The unit of all three is one round of plain decoding, so plain's
own terms sum to 1. The terms come from medians of single stages, without prefill and not from a whole run's time. So
measured and predicted differ by prefill, set-up, and how far a run's rounds are from the median round.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.measure.bench.rounds import Rounds


@dataclass(frozen=True)
class Prediction:
    """The terms of S. tau is per sequence."""

    tau: float
    gamma_c: float
    v: float
    o: float

    @property
    def ratio(self) -> float:
        return self.tau / (self.gamma_c + self.v + self.o)


def predict(rounds: Rounds, plain: Rounds) -> Prediction:
    """The terms, from a drafter's rounds and plain's in one cell."""
    stages, unit = rounds.stage_ms(), sum(plain.stage_ms().values())
    return Prediction(
        tau=rounds.tokens_per_round(),
        gamma_c=stages["propose"] / unit,
        v=stages["verify"] / unit,
        o=(stages["accept"] + stages["commit"] + stages["host"]) / unit,
    )
