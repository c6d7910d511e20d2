"""Loaded models, and what their drafters choose by: costs of rounds and Sequoia's trees, each measured once."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property, partial
from typing import Self

from draftscope.base.costs import Calibration, VerifyCurve
from draftscope.base.presumed_costs import ACCEPTED, PresumedCosts
from draftscope.base.progress import Progress, with_progress
from draftscope.base.steps import Steps, Together, last
from draftscope.decode.calibration import calibration_of, known_costs, quick_curve
from draftscope.decode.lane import Lane
from draftscope.decode.open_session import MeasuredPair
from draftscope.decode.pair import LoadedPair
from draftscope.decode.presumed import presumed
from draftscope.decode.rank_acceptance import by_rank
from draftscope.drafters.options import TreeSizeOptions
from draftscope.drafters.policy.sequoia import best_tree
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import Counts

COSTS = "what a round costs here, once for this machine"
RANKS = "which drafted tokens are accepted, for the shape of the tree"


class MeasuringPair(LoadedPair):
    """A pair that measures, for drafters that choose by it, what was not measured before."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._calibrating: dict[object, Together[Progress, Calibration]] = {}  # by what it is of
        self._curve = Together(lambda: quick_curve(self))
        self._rates: dict[tuple[str, Sampling], Together[Progress, tuple[float, ...]]] = {}  # acceptance by rank
        self._trees: dict[tuple[str, Sampling, int, int, bool], Counts] = {}  # the last: of presumed costs
        self._tree: Counts | None = None  # instead of the best one
        self._presumed: list[Lane] = []  # chose by costs that were not measured here yet

    def measuring(self, lane: Lane, batch: int = 1, at_once: bool = False) -> Steps[Progress, MeasuredPair]:
        """What the lane's drafter chooses by, measured now if it was not before. Each step says how far it is. With
        `at_once` it is presumed where it was not measured."""
        info, settings = lane.info, lane.settings
        costed = info.costed(settings) if info.chooses_cost(settings) else ()
        shaped = info.chooses_shape(settings)
        costs = tree = None
        if costed:
            costs = yield from self._costs(costed, batch == 1, at_once)
        if shaped:
            tree_costs = yield from self._costs((info.costs_like,), True, at_once)
            costs = costs or tree_costs
            tree = yield from self._best_tree(lane, tree_costs)
        if isinstance(costs, PresumedCosts) and lane not in self._presumed:
            self._presumed.append(lane)
        return MeasuredPair(costs, tree)

    def measuring_presumed(self) -> Steps[Progress, None]:
        """Measures what runs have presumed, for the next ones. Ends at once where there is nothing."""
        while self._presumed:
            yield from self.measuring(self._presumed[0])
            del self._presumed[0]

    def _costs(
        self, names: tuple[str, ...], one_text: bool, at_once: bool
    ) -> Steps[Progress, Calibration | PresumedCosts]:
        """What rounds of the drafters `names` cost."""
        if not at_once or "calibration" in self.__dict__:
            return (yield from self.calibrated(names, one_text))
        measured = self._calibrating.get((names, one_text))
        return (measured.result if measured else None) or known_costs(self, names, one_text) or presumed(self)

    @cached_property
    def calibration(self) -> Calibration:
        """The measured costs of rounds, for this pair on this machine. Measured now if not yet known: seconds."""
        return last(self.calibrated())

    def calibrated(self, names: Sequence[str] = (), one_text: bool = False) -> Steps[Progress, Calibration]:
        """The same in steps of a forward or a few rounds, perhaps of the drafters `names` and batches of one only. Each
        says how far it is."""
        if "calibration" in self.__dict__:
            return self.calibration
        measuring = partial(calibration_of, self, names=names, one_text=one_text)
        together = Together(lambda: with_progress(measuring, COSTS))
        calibration = yield from self._calibrating.setdefault((tuple(names), one_text), together).steps()
        if not names:
            self.calibration = calibration
        return calibration

    def known_costs(self, names: Sequence[str] = ()) -> Calibration | None:
        """The same where it was measured before, else None; nothing is measured."""
        return self.__dict__.get("calibration") or known_costs(self, names)

    def forget_costs(self) -> None:
        """Costs are read or measured again by whoever needs them next."""
        self.__dict__.pop("calibration", None)
        self._calibrating.clear()

    def verify_curve(self) -> Steps[None, VerifyCurve]:
        """v by rows: from the saved calibration, else measured once in a second or so, in steps of a forward."""
        return self._curve.steps()

    def with_tree(self, tree: Counts) -> Self:
        """The same models; Sequoia drafts this tree, whichever would be the fastest."""
        engine = copy(self)
        engine._tree = tree
        return engine

    def _best_tree(self, lane: Lane, costs: Calibration | PresumedCosts) -> Steps[Progress, Counts]:
        """Sequoia's tree for this drafter, pair and machine, within the limits of its settings."""
        if self._tree is not None:
            return self._tree
        is_presumed = isinstance(costs, PresumedCosts)
        rates = ACCEPTED if is_presumed else (yield from self._rates_of(lane))
        size = lane.settings.options(TreeSizeOptions)
        limits = lane.info.name, lane.sampling, size.tree_nodes, size.tree_depth, is_presumed
        if limits not in self._trees:
            cost = partial(costs.tree_cost, lane.info.costs_like)
            self._trees[limits] = best_tree(rates, size.tree_nodes, size.tree_depth, cost)
        return self._trees[limits]

    def _rates_of(self, lane: Lane) -> Steps[Progress, tuple[float, ...]]:
        """How often the lane's drafter is right, by rank; measured once."""
        measuring = partial(by_rank, self, lane)
        together = Together(lambda: with_progress(measuring, RANKS))
        return (yield from self._rates.setdefault((lane.info.name, lane.sampling), together).steps())
