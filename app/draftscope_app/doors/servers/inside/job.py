"""The recorded rounds of a server as a job of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from draftscope.base.steps import Steps
from draftscope_app.doors.servers.job import ServersJob
from draftscope_app.engine.jobs import Said, Watch

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine


class InsideJob(ServersJob):
    """The only lane is a server, whose recorder sends its rounds: of what it is asked for, or of an earlier request."""

    is_run: ClassVar[bool] = True
    keeps_last: ClassVar[bool] = False
    kind: Literal["inside"] = "inside"
    request: str = ""  # the earlier one

    def work(self, engine: DecodingEngine, _: Watch) -> Steps[Said, None]:
        from draftscope.servers.field import request_of

        with self.opened(engine) as field:
            if self.request:
                yield from field.opened(self.request, self.id)
            else:
                yield from field.inside(field.prompt(self.prompt, self.settings), request_of(self.settings), self.id)
