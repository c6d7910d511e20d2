"""What a round costs in milliseconds: the calibration's costs, or values that were measured elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from draftscope.base.costs import PLAIN, Calibration
from draftscope.drafters import DrafterInfo


class RoundCosts(ABC):
    """Costs of rounds. Only their ratios matter where nothing else is timed."""

    most_batch: int  # nothing is known of larger batches

    @abstractmethod
    def ms(self, drafter: str, nodes: int, levels: int, batch: int) -> float:
        """A round of `batch` sequences with `nodes` drafted tokens each, drafted in `levels` steps."""

    def plain(self, batch: int) -> float:
        """A round of plain decoding."""
        return self.ms(PLAIN, 0, 0, batch)


class CalibratedCosts(RoundCosts):
    """The calibration's costs at `context` tokens.

    `same_as` names the calibrated drafter whose costs a drafter has. `scale` is the time of a drafter's rounds on the
    prompts at hand, divided by the calibration's for the same rounds: what a calibration of chains leaves out (wide
    levels, searching a long text, another load on the machine) then counts as it was measured.
    """

    def __init__(
        self,
        calibration: Calibration,
        context: int,
        same_as: Mapping[str, str] = MappingProxyType({}),
        scale: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.calibration = calibration
        self.context = context
        self.most_batch = max(point.batch for point in calibration.verify)
        self._same_as = same_as
        self._scale = scale
        self._known: dict[tuple[str, int, int, int], float] = {}

    def ms(self, drafter: str, nodes: int, levels: int, batch: int) -> float:
        key = drafter, nodes, levels, batch
        if key not in self._known:
            own = self._same_as.get(drafter, drafter)
            ms = self.calibration.round_ms(own, nodes, levels, batch, self.context)
            self._known[key] = self._scale.get(drafter, 1.0) * ms
        return self._known[key]

    def scaled(self, factors: Mapping[str, float]) -> CalibratedCosts:
        """The same, with the rounds of each named drafter that many times as long."""
        scale = {**self._scale, **{name: self._scale.get(name, 1.0) * factor for name, factor in factors.items()}}
        return CalibratedCosts(self.calibration, self.context, self._same_as, scale)


@dataclass(frozen=True)
class TypedCosts(RoundCosts):
    """c, v and o in rounds of plain decoding, as they were measured elsewhere for one sequence.

    `v[k - 1]` is the cost of verifying k drafted tokens; the last one holds for all that are longer.
    """

    c: float
    v: Sequence[float] = (1.0,)
    o: float = 0.0
    most_batch: int = 1

    def ms(self, drafter: str, nodes: int, levels: int, batch: int) -> float:
        if batch > self.most_batch:
            raise ValueError(f"batch {batch}: these costs are of one sequence")
        if drafter == PLAIN or nodes == 0:
            return 1.0
        return levels * self.c + self.v[min(nodes, len(self.v)) - 1] + self.o


def calibrated_as(info: DrafterInfo, calibration: Calibration) -> str:
    """The calibrated drafter whose draft steps cost what this one's do; plain where there is none."""
    base = info.needs_head or ("draft" if info.needs_draft else info.name.removesuffix("-tree"))
    return next((name for name in (info.name, base) if name in calibration.drafting), PLAIN)
