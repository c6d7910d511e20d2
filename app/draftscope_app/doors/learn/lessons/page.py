"""The lessons' recorded runs, sweeps and audits: which there are, and what they hold.

The words stand in assets/instrument.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope.trace import files
from draftscope.trace.events import AnyEvent
from draftscope_app.engine.admission import UNREADABLE
from draftscope_app.engine.jobs import new_id
from draftscope_app.page.layout import ServerFunction
from draftscope_app.page.runs.feed import delta, note
from draftscope_app.page.runs.recorded import FOLDER, events, names
from draftscope_app.page.task import TaskPage

SWEEP = ".sweep.jsonl"
AUDITS = ".audits.jsonl"


class Page(TaskPage):
    @classmethod
    def hand_over(cls) -> dict[str, Any]:
        return {"lessonNames": names()}

    @classmethod
    def recorded(cls) -> dict[str, Any]:
        return {f"lesson/{name}": delta_of(name, name) for name in names()}

    def functions(self) -> list[ServerFunction]:
        async def lesson(name: Any) -> str:
            return delta_of(name) if isinstance(name, str) else note(UNREADABLE)

        return [lesson]


def delta_of(name: str, called: str = "") -> str:
    """The run as one delta, or one sentence. `called` is the delta's name for it, by default a new one."""
    try:
        return as_delta(name, events(name), swept(name), audited(name), called)
    except DraftscopeError as error:
        return note(str(error))


def swept(name: str) -> list[dict[str, Any]]:
    """The sweep beside the run of that name, run by run; empty where there is none."""
    return _records(name, SWEEP)


def audited(name: str) -> list[dict[str, Any]]:
    """How the audits of the servers of that run ended, one for each; empty where there is none."""
    return _records(name, AUDITS)


def _records(name: str, suffix: str) -> list[dict[str, Any]]:
    path = FOLDER / f"{name}{suffix}"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def as_delta(
    name: str,
    run: Iterable[AnyEvent],
    sweep: Sequence[Mapping[str, Any]] = (),
    audits: Sequence[Mapping[str, Any]] = (),
    called: str = "",
) -> str:
    """A lesson's run as the page hears it."""
    lines = map(files.line, run)
    return delta(0, called or new_id(), lines, lesson=name, sweep=list(sweep), audits=list(audits))
