"""The comparison as a job of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from draftscope.base.steps import Steps
from draftscope_app.engine.jobs import Job, Said, Watch

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine


class CompareJob(Job):
    """All lanes are decoded whole, in turn."""

    keeps_last: ClassVar[bool] = False
    kind: Literal["compare"] = "compare"
    repeats: int

    @property
    def repeats_of_lanes(self) -> int:
        return self.repeats

    def work(self, engine: DecodingEngine, _: Watch) -> Steps[Said, None]:
        from draftscope_app.doors.decide.compare.compare import compare

        yield from compare(engine, self.prompt, self.lanes, self.repeats)
