"""The advice as a job of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from draftscope.advise.question import Asked
from draftscope.base.steps import Steps
from draftscope_app.engine.jobs import Job, Said, Watch

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine


class AdviseJob(Job):
    """A question is answered; the only lane says how long an answer is."""

    keeps_last: ClassVar[bool] = False
    kind: Literal["advise"] = "advise"
    wish: Asked

    def work(self, engine: DecodingEngine, watch: Watch) -> Steps[Said, None]:
        from draftscope.advise.advise import advised

        yield from advised(engine, self.wish, watch)
