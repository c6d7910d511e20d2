"""Loops, medians and their intervals. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LOOP = 0.2  # a text loops if more than this share of its 4-grams had occurred in it before
LEVEL = 0.95  # of all intervals
RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A median and its bootstrap interval at `LEVEL`."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, middle: float, drawn: NDArray[np.float64] | Sequence[float], level: float = LEVEL) -> Interval:
        """`drawn`: the same of resampled values."""
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
        return cls(float(middle), float(low), float(high))

    def __str__(self) -> str:
        return f"{self.median:.2f}" + (f" [{self.low:.2f}, {self.high:.2f}]" if self.low < self.high else "")


def resampled(count: int, times: int = RESAMPLES) -> NDArray[np.int64]:
    """[times, count] indices, always the same."""
    return np.random.default_rng(0).integers(0, count, (times, count))


def repeated_4grams(ids: Sequence[int]) -> float:
    """The share of 4-grams that had occurred before in the same text."""
    grams = [tuple(ids[i : i + 4]) for i in range(len(ids) - 3)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def bootstrap(groups: Sequence[Sequence[float]]) -> Interval:
    """The median over groups of each group's median, with a percentile bootstrap interval. No group may be empty.

    Each group is resampled on its own, always with the same random numbers. A single group is an ordinary median; a
    single value is its own interval.
    """
    from scipy import stats  # not at the top: it takes longer to import than all that needs no statistics

    samples = [np.repeat(values, 2) if len(values) == 1 else np.asarray(values, dtype=float) for values in groups]
    draws = np.random.default_rng(0)
    result = stats.bootstrap(samples, _median_of_medians, n_resamples=RESAMPLES, method="percentile", rng=draws)
    # numpy's quantile of equal values is that value; SciPy's own interval may miss it by its last bit.
    return Interval.of(_median_of_medians(*samples).item(), result.bootstrap_distribution)


def _median_of_medians(*samples: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    """Medians along `axis`, and of these the median over the samples."""
    medians: NDArray[np.float64] = np.median([np.median(sample, axis=axis) for sample in samples], axis=0)
    return medians
