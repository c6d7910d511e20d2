"""An experiment as a job of the engine process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from draftscope.base.steps import Steps
from draftscope_app.engine.jobs import Job, Said, Watch

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine


class ExperimentJob(Job):
    """Commands of the command line run, in processes of their own."""

    kind: Literal["experiment"] = "experiment"
    name: str

    def work(self, _: DecodingEngine, __: Watch) -> Steps[Said, None]:
        from draftscope.claims.experiments import named
        from draftscope_app.doors.decide.commands import experimented

        yield from experimented(named(self.name))
