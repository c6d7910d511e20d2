"""The calibration's costs, fitted to the rounds that were probed: the same costs, at the speed of the moment. And how
busy the machine was with other work, since costs measured then are not its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from draftscope import drafters
from draftscope.advise.probed_acceptance import Probed
from draftscope.advise.round_costs import CalibratedCosts, Timed, calibrated_as
from draftscope.advise.speed_model import PrefillTimes
from draftscope.base.cores import Company
from draftscope.base.costs import PLAIN, Calibration
from draftscope.measure.bench.round_arrays import MeasuredRounds

MIN_TIMED = 4  # rounds of one width
SPREAD = 0.35  # interquartile range over the median of plain's rounds before it is said
CHANGED = 1.35  # plain's round now against the calibration's, either way


def fitted(calibration: Calibration, probed: Mapping[str, Probed], context: int) -> CalibratedCosts:
    """At every size that was timed, each drafter's rounds cost what they took, and plain's what plain's took."""
    same_as = {name: calibrated_as(drafters.find(name), calibration) for name in probed}
    base = CalibratedCosts(calibration, context, same_as)
    timed = {name: _timed(base, name, result) for name, result in probed.items() if result.rounds}
    return CalibratedCosts(calibration, context, same_as, timed)


def prefill(probed: Mapping[str, Probed]) -> PrefillTimes:
    """Plain's set-up and prefill, and what each drafter adds to them, medians over prompts."""
    plain = probed[PLAIN].before_ms
    extra = {
        name: max(0.0, median(ms - other for ms, other in zip(result.before_ms, plain, strict=False)))
        for name, result in probed.items()
        if result.before_ms
    }
    return PrefillTimes(median(plain), extra)


def spread(round_ms: Sequence[float]) -> float:
    """The interquartile range of round times over their median."""
    low, middle, high = np.quantile(round_ms, [0.25, 0.5, 0.75])
    return float((high - low) / middle)


def noise(company: Company, plain_ms: Sequence[float], calibrated_ms: float | None) -> list[str]:
    """What makes the costs uncertain, if anything: other processes, uneven rounds, an old calibration."""
    lines = []
    if company.disturbs or spread(plain_ms) > SPREAD:
        lines.append(
            f"This machine is noisy: {company}, and the middle half of plain's rounds differ by "
            f"{spread(plain_ms):.0%}. Only ratios within the same repeat are reliable; stop other work and ask again."
        )
    now = float(np.median(plain_ms))
    if calibrated_ms is not None and not 1 / CHANGED < now / calibrated_ms < CHANGED:
        lines.append(
            f"A round of plain decoding takes {now:.2f} ms, and took {calibrated_ms:.2f} ms when this pair was "
            "calibrated. Costs are scaled to what is measured now; 'draftscope calibrate --again' measures them anew."
        )
    return lines


def _timed(costs: CalibratedCosts, name: str, probed: Probed) -> Timed:
    """One point for each width of the forward that was timed often enough; one for all where none was."""
    rounds = MeasuredRounds.joined([*probed.rounds, *probed.small_rounds])
    levels = np.array([level for run_levels in (*probed.levels, *probed.small_levels) for level in run_levels])
    widths, counts = np.unique(rounds.width, return_counts=True)
    groups = [rounds.width == width for width in widths[counts >= MIN_TIMED]] or [rounds.width > 0]
    points = sorted(
        (_modelled_ms(costs, name, rounds, levels, group), rounds.only(group).round_ms, group.sum()) for group in groups
    )
    modelled, measured, weights = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    apart = np.concatenate([[True], np.diff(modelled) > 0])
    from scipy.optimize import isotonic_regression  # not at the top: it takes longer to import than this module

    level = isotonic_regression(measured, weights=weights).x
    return Timed(tuple(modelled[apart].tolist()), tuple(level[apart].tolist()))


def _modelled_ms(
    costs: CalibratedCosts, name: str, rounds: MeasuredRounds, levels: NDArray[np.int64], mask: NDArray[np.bool_]
) -> float:
    """The same rounds by the calibration, in the mean."""
    sizes = zip(rounds.width[mask], levels[mask], strict=True)
    return fmean(costs.ms(name, int(width) - 1, int(level), 1) for width, level in sizes)
