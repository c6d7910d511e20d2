"""The check as a job of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from draftscope.base.steps import Steps
from draftscope_app.engine.jobs import Job, Said, Watch

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine


class CheckJob(Job):
    """The only lane's drafter and rule are checked by sampling."""

    kind: Literal["check"] = "check"
    samples: int  # of each distribution test

    def work(self, engine: DecodingEngine, _: Watch) -> Steps[Said, None]:
        from draftscope.measure.check import checked

        yield from checked(engine, next(iter(self.lanes.values())), self.samples)
