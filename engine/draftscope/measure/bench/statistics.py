"""Loops, medians and their intervals. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LOOP = 0.2  # a continuation loops when more than this share of its 4-grams occurred in it before
LEVEL = 0.95  # of every interval
RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A median and its bootstrap interval at `LEVEL`."""

    median: float
    low: float
    high: float


def repeated_4grams(ids: Sequence[int]) -> float:
    """The share of 4-grams that occurred before in the same text; 0 where there are fewer than two."""
    grams = [tuple(ids[i : i + 4]) for i in range(len(ids) - 3)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def bootstrap(groups: Sequence[Sequence[float]]) -> Interval:
    """The median over groups of each group's median. Percentile bootstrap within each group, always the same draws.

    A single group is an ordinary median. No group may be empty. With one value low, median and high are that value:
    an interval cannot be wider than what was seen.
    """
    draws = np.random.default_rng(0)
    middles, resampled = [], []
    for group in groups:
        values = np.asarray(group, dtype=float)
        middles.append(np.median(values))
        picked = draws.integers(0, len(values), (RESAMPLES, len(values)))
        resampled.append(np.median(values[picked], axis=1))
    low, high = np.quantile(np.median(resampled, axis=0), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(np.median(middles)), float(low), float(high))
