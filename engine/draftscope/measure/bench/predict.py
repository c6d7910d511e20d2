"""What the speedup should be, from the stages of single rounds: S = tau / (gamma c + v + o).

tau is the tokens of a round; gamma c what proposing them costs, v the verification at that width, o everything else of
a round (verify, commit, host). The unit of all three is one whole round of plain decoding, so plain's own terms add up
to 1. The terms come from the medians of single stages and never from a whole run's time; prefill is in no term. What
measured and predicted differ by is therefore prefill, set-up, and how far a run's rounds are from the median one.
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
    """The terms from the rounds of one cell, drafter's and plain's."""
    stages, unit = rounds.stage_ms(), sum(plain.stage_ms().values())
    return Prediction(
        tau=rounds.tokens_per_round(),
        gamma_c=stages["propose"] / unit,
        v=stages["verify"] / unit,
        o=(stages["accept"] + stages["commit"] + stages["host"]) / unit,
    )
