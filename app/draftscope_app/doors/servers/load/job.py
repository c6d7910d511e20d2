"""The load test as a job of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from draftscope.base.steps import Steps
from draftscope_app.doors.servers.job import ServersJob
from draftscope_app.engine.jobs import Said, Watch

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine


POINT_S = 5.0  # of each point


class LoadJob(ServersJob):
    """All servers are put under load."""

    kind: Literal["loadtest"] = "loadtest"
    points: tuple[int, ...]  # requests at once

    def work(self, engine: DecodingEngine, _: Watch) -> Steps[Said, None]:
        from draftscope.servers.field import request_of
        from draftscope.servers.load_test import LoadPlan

        with self.opened(engine) as field:
            prompts, request = [field.prompt(self.prompt, self.settings)], request_of(self.settings)
            yield from field.load(LoadPlan(prompts, request, self.points, POINT_S, jitter=field.jitter))
