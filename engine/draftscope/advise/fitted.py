"""The calibration's costs, fitted to the rounds that were probed: the same costs, at the speed of the moment."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, median

from draftscope import drafters
from draftscope.advise.costs import CalibratedCosts, calibrated_as
from draftscope.advise.model import Prefill
from draftscope.advise.probe import Probed
from draftscope.base.costs import PLAIN, Calibration
from draftscope.measure.bench.rounds import Rounds


def fitted(calibration: Calibration, probed: Mapping[str, Probed], context: int) -> CalibratedCosts:
    """Each drafter's rounds cost in the mean what its probed rounds took, and plain's what plain's took."""
    same_as = {name: calibrated_as(drafters.find(name), calibration) for name in probed}
    base = CalibratedCosts(calibration, context, same_as)
    scale = {name: measured_ms(own) / _modelled_ms(base, name, own) for name, own in probed.items() if own.rounds}
    return CalibratedCosts(calibration, context, same_as, scale)


def prefill(probed: Mapping[str, Probed]) -> Prefill:
    """Plain's prefill and what each drafter adds to it, medians over prompts."""
    plain = probed[PLAIN].prefill_ms
    extra = {
        name: max(0.0, median(ms - other for ms, other in zip(own.prefill_ms, plain, strict=False)))
        for name, own in probed.items()
        if own.prefill_ms
    }
    return Prefill(median(plain), extra)


def measured_ms(probed: Probed) -> float:
    """A round in the mean, from medians by width."""
    return sum(Rounds.joined(probed.rounds).stage_ms().values())


def _modelled_ms(costs: CalibratedCosts, name: str, probed: Probed) -> float:
    sizes = [
        (int(width) - 1, levels)
        for rounds, own in zip(probed.rounds, probed.levels, strict=True)
        for width, levels in zip(rounds.width, own, strict=True)
    ]
    return fmean(costs.ms(name, nodes, levels, 1) for nodes, levels in sizes)
