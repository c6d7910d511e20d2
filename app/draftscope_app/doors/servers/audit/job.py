"""The audit of a server as a job of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from draftscope.base.steps import Steps
from draftscope_app.doors.servers.job import ServersJob
from draftscope_app.engine.jobs import Said, Watch

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine


SECONDS = 300.0  # of sampling, at most


class AuditJob(ServersJob):
    """The first server is audited against the second if there is one, else against the target loaded here."""

    kind: Literal["audit"] = "audit"
    samples: int  # at most

    def work(self, engine: DecodingEngine, _: Watch) -> Steps[Said, None]:
        from draftscope.servers.audit.plan import Plan
        from draftscope.verify.sampling import Sampling

        settings = self.settings
        with self.opened(engine, by_weights=len(self.lanes) == 1) as field:
            plan = Plan(Sampling.of(settings), samples=self.samples, seconds=SECONDS, seed=settings.seed)
            yield from field.audit(plan)
