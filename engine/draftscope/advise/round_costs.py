"""What a round costs in milliseconds: the calibration's costs, or values that were measured elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from draftscope.base.costs import PLAIN, Calibration
from draftscope.drafters import DrafterInfo


class RoundCosts(ABC):
    """Round costs. Where nothing else is timed the unit is arbitrary: only ratios are used."""

    max_batch: int  # nothing is known of larger batches

    @abstractmethod
    def ms(self, drafter: str, nodes: int, levels: int, batch: int) -> float:
        """A round of `batch` sequences with `nodes` drafted tokens each, drafted in `levels` steps."""

    def plain(self, batch: int) -> float:
        """A round of plain decoding."""
        return self.ms(PLAIN, 0, 0, batch)


@dataclass(frozen=True)
class Timed:
    """Rounds of one drafter as they were timed, beside the calibration's ms for the same rounds, at one size or more.

    Between sizes the time is interpolated: a single factor would be wrong for small drafts, since part of what a
    calibration leaves out is the same for a draft of any size.
    """

    modelled: tuple[float, ...]  # ms, rising
    measured: tuple[float, ...]  # ms, never falling

    def factor(self, ms: float) -> float:
        """What a round takes that the calibration says takes `ms`, over that. Beyond the timed sizes as at the end."""
        inside = float(np.clip(ms, self.modelled[0], self.modelled[-1]))
        return float(np.interp(inside, self.modelled, self.measured)) / inside

    def times(self, factor: float) -> Timed:
        """Every time multiplied."""
        return Timed(self.modelled, tuple(ms * factor for ms in self.measured))


class CalibratedCosts(RoundCosts):
    """The calibration's costs at `context` tokens.

    `same_as` names the calibrated drafter whose costs a drafter has. `timed` has rounds on the prompts at hand: what a
    calibration of chains leaves out (wide levels, searching a long text, another load on the machine) then counts as it
    was measured. A batch is scaled like the same round of one sequence.
    """

    def __init__(
        self,
        calibration: Calibration,
        context: int,
        same_as: Mapping[str, str] = MappingProxyType({}),
        timed: Mapping[str, Timed] = MappingProxyType({}),
    ) -> None:
        self.calibration = calibration
        self.context = context
        self.max_batch = max(point.batch for point in calibration.verify)
        self._same_as = same_as
        self._timed = timed
        self._known: dict[tuple[str, int, int, int], float] = {}

    def ms(self, drafter: str, nodes: int, levels: int, batch: int) -> float:
        key = drafter, nodes, levels, batch
        if key not in self._known:
            timed_as = self._same_as.get(drafter, drafter)
            ms = self.calibration.round_ms(timed_as, nodes, levels, batch, self.context)
            if drafter in self._timed:
                single = self.calibration.round_ms(timed_as, nodes, levels, 1, self.context)
                ms *= self._timed[drafter].factor(single)
            self._known[key] = ms
        return self._known[key]

    def at(self, context: int) -> CalibratedCosts:
        """The same at another context."""
        return CalibratedCosts(self.calibration, context, self._same_as, self._timed)

    def scaled(self, factors: Mapping[str, float]) -> CalibratedCosts:
        """The same, with the rounds of each named drafter that many times as long."""
        one = Timed((1.0,), (1.0,))
        more = {name: self._timed.get(name, one).times(factor) for name, factor in factors.items()}
        return CalibratedCosts(self.calibration, self.context, self._same_as, {**self._timed, **more})


@dataclass(frozen=True)
class TypedCosts(RoundCosts):
    """c, v and o in rounds of plain decoding, as they were measured elsewhere for one sequence.

    `v[k - 1]` is the cost of verifying k drafted tokens; the last one holds for all that are longer.
    """

    c: float
    v: Sequence[float] = (1.0,)
    o: float = 0.0
    max_batch: int = 1

    def ms(self, drafter: str, nodes: int, levels: int, batch: int) -> float:
        if batch > self.max_batch:
            raise ValueError(f"batch {batch}: these costs are of one sequence")
        if drafter == PLAIN or nodes == 0:
            return 1.0
        return levels * self.c + self.v[min(nodes, len(self.v)) - 1] + self.o


def calibrated_as(info: DrafterInfo, calibration: Calibration) -> str:
    """The calibrated drafter whose draft steps cost what this one's do; plain where there is none."""
    return next((name for name in (info.name, info.costs_like) if name in calibration.drafting), PLAIN)
