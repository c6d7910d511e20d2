"""What rounds cost, from the rounds that were probed and nothing else: where this machine's costs are not measured yet,
a verdict need not wait for them. They are of one sequence; for more at once they only say what is worth running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftscope.advise.probed_acceptance import Probed
from draftscope.advise.round_costs import RoundCosts
from draftscope.measure.bench.round_arrays import STAGES, MeasuredRounds

PROPOSE, VERIFY = STAGES.index("propose"), STAGES.index("verify")
MIN_TIMED = 2  # rounds of one width


@dataclass(frozen=True)
class OwnCosts:
    """One drafter's, in ms: a draft step, what a round has beside steps and forward, and what a drafted token adds."""

    step: float
    overhead: float
    accept_step: float

    def times(self, factor: float) -> OwnCosts:
        return OwnCosts(self.step * factor, self.overhead * factor, self.accept_step * factor)


class ProbedCosts(RoundCosts):
    """`widths` and `verify_ms` are of the target's forward, `parts` are by drafter. A batch costs what one sequence
    does."""

    max_batch = 1

    def __init__(
        self,
        widths: tuple[int, ...],
        verify_ms: tuple[float, ...],
        parts: Mapping[str, OwnCosts],
        factors: Mapping[str, float] | None = None,
    ) -> None:
        self._widths, self._verify_ms, self._parts = widths, verify_ms, parts
        self._factors = factors or {}

    def ms(self, drafter: str, nodes: int, levels: int, batch: int) -> float:
        """Wider forwards than were seen take as much a row as the widest."""
        del batch
        part, width, widest = self._parts[drafter], nodes + 1, self._widths[-1]
        verify = float(np.interp(width, self._widths, self._verify_ms)) * max(1.0, width / widest)
        ms = verify + levels * part.step + part.overhead + nodes * part.accept_step
        return ms * self._factors.get(drafter, 1.0)

    def scaled(self, factors: Mapping[str, float]) -> ProbedCosts:
        """The same, with the rounds of each named drafter that many times as long."""
        more = {name: self._factors.get(name, 1.0) * factor for name, factor in factors.items()}
        return ProbedCosts(self._widths, self._verify_ms, self._parts, {**self._factors, **more})


def probed_costs(probed: Mapping[str, Probed]) -> ProbedCosts:
    """From the rounds of plain decoding and every drafter, of both sizes at which each was timed."""
    every = {name: _joined(result) for name, result in probed.items() if result.rounds}
    widths, times = _forwards(MeasuredRounds.joined([rounds for rounds, _ in every.values()]))
    parts = {name: _own(rounds, levels) for name, (rounds, levels) in every.items()}
    return ProbedCosts(widths, times, parts)


def _joined(result: Probed) -> tuple[MeasuredRounds, NDArray[np.int64]]:
    """The rounds at both sizes, and how many draft steps each had."""
    levels = [level for run in (*result.levels, *result.small_levels) for level in run]
    return MeasuredRounds.joined([*result.rounds, *result.small_rounds]), np.array(levels, dtype=np.int64)


def _forwards(rounds: MeasuredRounds) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Medians by width, which do not fall: the nearest such times by least squares."""
    from scipy.optimize import isotonic_regression  # not at the top: it takes longer to import than this module

    widths, counts = np.unique(rounds.width, return_counts=True)
    kept = counts >= min(MIN_TIMED, int(counts.max()))
    medians = [np.median(rounds.stages[rounds.width == width, VERIFY]) for width in widths[kept]]
    level = isotonic_regression(np.array(medians), weights=counts[kept].astype(float)).x
    return tuple(widths[kept].tolist()), tuple(float(ms) for ms in level)


def _own(rounds: MeasuredRounds, levels: NDArray[np.int64]) -> OwnCosts:
    propose = rounds.stages[:, PROPOSE]
    rest = rounds.ms - propose - rounds.stages[:, VERIFY]
    step, before = _line(levels, propose)
    accept_step, overhead = _line(rounds.width - 1, rest)
    return OwnCosts(step, before + overhead, accept_step)


def _line(sizes: NDArray[np.int64], ms: NDArray[np.float64]) -> tuple[float, float]:
    """Slope and intercept through the medians by size, neither below 0; of one size all is the intercept."""
    at = np.unique(sizes)
    medians = np.array([np.median(ms[sizes == size]) for size in at])
    slope = max(0.0, float(np.polyfit(at, medians, 1)[0])) if len(at) > 1 else 0.0
    return slope, max(0.0, float(np.mean(medians - slope * at)))
