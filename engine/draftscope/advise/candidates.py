"""The settings that are compared: for each drafter the run that reveals its acceptance, and all that follow from it.

A shorter chain is the beginning of a longer one and a narrower tree part of a wider one (`drafters/policy/implied.py`),
so one run at the largest size tells the acceptance of every smaller size.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.drafters import DrafterInfo
from draftscope.drafters.options import TreeShape
from draftscope.drafters.policy.implied import lies_in
from draftscope.measure.bench.systems import OWN, Label

GAMMAS = (1, 2, 3, 4, 5, 6, 8)
NARROWEST: TreeShape = (2,)
WIDEST: TreeShape = (3, 2, 1, 1)
SHAPES: tuple[TreeShape, ...] = (
    NARROWEST, (3,), (2, 1), (3, 1), (2, 2), (2, 1, 1), (3, 1, 1), (2, 2, 1), (3, 2, 1), (2, 1, 1, 1),
    (2, 2, 1, 1), WIDEST,
)  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """A drafter at one size. Without gamma and shape it has its default options, and chooses its own size."""

    drafter: str
    gamma: int | None = None
    shape: TreeShape | None = None

    @property
    def label(self) -> Label:
        return Label(OWN, self.drafter, self.gamma, self.shape)

    @property
    def name(self) -> str:
        return self.label.name

    @property
    def form(self) -> TreeShape | None:
        """Children of every node, level by level; None if the drafter chooses."""
        return (1,) * self.gamma if self.gamma is not None else self.shape


def sizes_of(info: DrafterInfo) -> tuple[Candidate, Candidate | None]:
    """The largest size, at which a drafter is run, and the smallest, at which it is timed too; None for one that
    chooses its size itself."""
    if "shape" in info.uses:
        return Candidate(info.name, shape=WIDEST), Candidate(info.name, shape=NARROWEST)
    if "gamma" in info.uses and not info.chooses_by:
        return Candidate(info.name, gamma=GAMMAS[-1]), Candidate(info.name, gamma=GAMMAS[0])
    return Candidate(info.name), None


def implied(run: Candidate) -> list[Candidate]:
    """Every candidate whose acceptance a run at this size tells, itself included."""
    if run.gamma is not None:
        return [Candidate(run.drafter, gamma=gamma) for gamma in GAMMAS if gamma <= run.gamma]
    if run.shape is not None:
        return [Candidate(run.drafter, shape=shape) for shape in SHAPES if lies_in(shape, run.shape)]
    return [run]
