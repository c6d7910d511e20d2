"""The race of servers as a job of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from draftscope.base.steps import Steps
from draftscope_app.doors.servers.job import ServersJob
from draftscope_app.engine.jobs import Said, Watch

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine


class RaceJob(ServersJob):
    """Other programs write the lanes that have an address, the engine itself the others, in turns."""

    is_run: ClassVar[bool] = True
    keeps_last: ClassVar[bool] = False
    kind: Literal["race"] = "race"
    inside: tuple[str, ...] = ()  # lanes that are shown by the recorders inside them
    repeats: int = 1  # answers of each

    def work(self, engine: DecodingEngine, _: Watch) -> Steps[Said, None]:
        from draftscope.servers.field import request_of
        from draftscope.servers.inside.live import new_name
        from draftscope.servers.server_race import Race

        with self.opened(engine) as field:
            prompts, request = [field.prompt(self.prompt, self.settings)], request_of(self.settings)
            recorded = {name: new_name() for name in self.inside}
            yield from field.race(Race(prompts, request, self.repeats, field.jitter, recorded=recorded), self.id)
