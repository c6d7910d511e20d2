"""Decides from what was measured: on, off, or that it cannot be told. No prediction overrules a measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from draftscope.advise.candidates import Candidate
from draftscope.measure.bench.statistics import Interval

FEW = 5  # prompts: with fewer, nothing is said about other texts
LEAST_RUNS = 5  # beside plain: all of fewer may be faster by chance, with a probability of 1/16 or more
LEAST_DIFFERENCE = 0.01  # a smaller one is not worth looking for


class Verdict(StrEnum):
    """The answer."""

    ON = "turn it on"
    OFF = "leave it off"
    OPEN = "cannot tell"


@dataclass(frozen=True)
class Measured:
    """A candidate run against plain, interleaved. `ratio` is the objective's, over plain's, with its interval over
    prompts, or over repeats of a single prompt. `predicted` is the ratio that was predicted for the same runs."""

    candidate: Candidate
    ratio: Interval
    predicted: float
    prompts: int
    runs: int
    tokens: int  # of each answer

    @property
    def told(self) -> bool:
        """Whether its runs are enough to decide."""
        return self.runs >= LEAST_RUNS


@dataclass(frozen=True)
class Decision:
    """The verdict, the candidate that it is about, and, where it cannot be told, how many prompts would tell."""

    verdict: Verdict
    chosen: Measured
    prompts_needed: int | None = None  # None also if the difference is too small for any practical number


def decide(measured: Sequence[Measured]) -> Decision:
    """From at least one measured candidate. Only one whose whole interval, over enough runs, is above 1 is advised."""
    best = max(measured, key=lambda each: each.ratio.median)
    faster = [each for each in measured if each.ratio.low > 1 and each.told]
    if faster:
        return Decision(Verdict.ON, max(faster, key=lambda each: each.ratio.median))
    undecided = [each for each in measured if each.ratio.high >= 1 or not each.told]
    if undecided:
        chosen = max(undecided, key=lambda each: each.ratio.median)
        return Decision(Verdict.OPEN, chosen, prompts_needed(chosen))
    return Decision(Verdict.OFF, best)


def prompts_needed(measured: Measured) -> int | None:
    """The number of prompts whose interval would no longer contain 1, if the median stays and the width falls with
    their square root; at least `FEW`, since fewer do not tell how prompts differ. None where the difference is under
    `LEAST_DIFFERENCE`. After too few runs nothing is known of the width: then `FEW`."""
    ratio = measured.ratio
    if not measured.told:
        return FEW
    difference = abs(ratio.median - 1)
    if difference < LEAST_DIFFERENCE:
        return None
    reach = ratio.median - ratio.low if ratio.median > 1 else ratio.high - ratio.median
    return max(FEW, measured.prompts + 1, math.ceil(measured.prompts * (reach / difference) ** 2 - 1e-9))
