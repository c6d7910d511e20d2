"""The commands that start a plain server and one that speculates, for the model that is loaded here."""

from __future__ import annotations

import shlex
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope.servers.programs import program_list
from draftscope.servers.programs.program import ServedPair
from draftscope_app.doors.servers.server_list import lets_add
from draftscope_app.page.layout import ServerFunction
from draftscope_app.page.task import TaskPage

NOT_YET = "The models are still being loaded."
HIDDEN = "MODEL"  # stands for the model where visitors do not learn where it lies


class Page(TaskPage):
    def functions(self) -> list[ServerFunction]:
        site, engine = self.shared.site, self.shared.admission.engine

        async def starts(program: Any) -> dict[str, Any]:
            source = engine.status.source if lets_add(site) else HIDDEN
            return started(source, program)

        return [starts]


def started(source: str, program: Any = None) -> dict[str, Any]:
    """Both commands for a `program`, or for the one that usually serves such a model; and what to type before, once.
    The speculative one copies from the prompt, which needs no other model."""
    if not source:
        return {"note": NOT_YET}
    try:
        how = (
            program_list.find_start(program)
            if isinstance(program, str) and program
            else program_list.usual_start(source)
        )
        pair = ServedPair(source)
        both = how.commands(pair)
    except DraftscopeError as error:
        return {"note": str(error)}
    return {
        "program": how.name,
        "programs": list(program_list.started_names()),
        "setup": "\n".join(how.setup(pair)),
        "commands": [[command.name, command.shell()] for command in both],
        "more": f"draftscope servers {shlex.quote(source)}",
    }
