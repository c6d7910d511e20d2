"""Decides from what was measured: on, off, or that it cannot be told. No prediction overrules a measurement.

Runs go on until the answer is clear, and every look at them is a chance to be wrong: before the end of the time an
interval at the level `LOOK` has to exclude 1, at its end one at 95%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the page names verdicts, and its process imports no torch
    from draftscope.advise.candidates import Candidate
    from draftscope.measure.bench.statistics import Interval

FEW = 5  # prompts: with fewer, nothing is said about other texts
MIN_RUNS = 5  # beside plain: all of fewer may be faster by chance, with a probability of 1/16 or more
LOOK = 0.995  # of the interval at each look before the end
MATTERS = 1.02  # less speed than this is not worth a setting: an interval below it says to leave it off
IMPOSSIBLE = 1.03  # times the tokens a round: a ratio above was disturbed, since no round is cheaper than plain's
FAR = 0.10  # between prediction and measurement: more is explained
MIN_DIFFERENCE = 0.01  # a smaller one is not worth looking for


class Verdict(StrEnum):
    """The answer."""

    ON = "turn it on"
    OFF = "leave it off"
    OPEN = "cannot tell"


@dataclass(frozen=True)
class Measured:
    """A candidate run against plain, interleaved. `ratio` is the objective's, over plain's, on these prompts, and
    `look` the same at the level of a look before the end. `predicted` is what was predicted for the same runs."""

    candidate: Candidate
    ratio: Interval
    predicted: float
    prompts: int
    runs: int
    tokens: int  # of each answer
    tau: float | None = None  # tokens a round in these runs; None where rounds are not known
    predicted_tau: float | None = None
    look: Interval | None = None
    by_kind: dict[str, float] = field(default_factory=dict)  # the ratio by kind of text

    @property
    def has_enough_runs(self) -> bool:
        """Whether its runs are enough to decide."""
        return self.runs >= MIN_RUNS and self.possible

    @property
    def possible(self) -> bool:
        """Whether a machine can be so fast at so many tokens a round."""
        return self.tau is None or self.ratio.low <= IMPOSSIBLE * self.tau


@dataclass(frozen=True)
class AtTemperature:
    """The answer about the same candidate at another temperature than was asked for."""

    temperature: float
    verdict: Verdict
    ratio: Interval


@dataclass(frozen=True)
class AdviceDecision:
    """The verdict, the candidate that it is about, and, where it cannot be told, how many prompts would tell."""

    verdict: Verdict
    chosen: Measured
    prompts_needed: int | None = None  # None also if the difference is too small for any practical number


def decide(measured: Sequence[Measured]) -> AdviceDecision:
    """From at least one measured candidate. Only one whose whole interval, over enough runs, is above 1 is advised."""
    best = max(measured, key=lambda candidate: candidate.ratio.median)
    faster = [
        candidate
        for candidate in measured
        if candidate.ratio.low > 1 and candidate.ratio.high >= MATTERS and candidate.has_enough_runs
    ]
    if faster:
        return AdviceDecision(Verdict.ON, max(faster, key=lambda candidate: candidate.ratio.median))
    undecided = [
        candidate for candidate in measured if candidate.ratio.high >= MATTERS or not candidate.has_enough_runs
    ]
    if undecided:
        chosen = max(undecided, key=lambda candidate: candidate.ratio.median)
        return AdviceDecision(Verdict.OPEN, chosen, prompts_needed(chosen))
    return AdviceDecision(Verdict.OFF, best)


def clear(measured: Sequence[Measured]) -> bool:
    """Whether an answer before the end of the time would be the same at its end, as far as one look can tell."""
    looked = [replace(candidate, ratio=candidate.look or candidate.ratio) for candidate in measured]
    return bool(looked) and decide(looked).verdict is not Verdict.OPEN


def prompts_needed(measured: Measured) -> int | None:
    """The number of prompts whose interval would no longer contain 1, if the median stays and the width falls with
    their square root; at least `FEW`, since fewer do not tell how prompts differ. None where the difference is under
    `MIN_DIFFERENCE`. After too few runs nothing is known of the width: then `FEW`."""
    ratio = measured.ratio
    if not measured.has_enough_runs:
        return FEW
    difference = abs(ratio.median - 1)
    if difference < MIN_DIFFERENCE:
        return None
    reach = ratio.median - ratio.low if ratio.median > 1 else ratio.high - ratio.median
    return max(FEW, measured.prompts + 1, math.ceil(measured.prompts * (reach / difference) ** 2 - 1e-9))
