"""The race and the audits of two real servers, as tests/programs/record_servers.py recorded them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from draftscope.base.assets import assets
from draftscope.servers.programs.program_list import title_of
from draftscope.trace import files
from draftscope.trace.events import AnyEvent, Burst, RunStart, Served
from draftscope_app.page.layout import ServerFunction
from draftscope_app.page.task import TaskPage

RACE, AUDITS = "servers.jsonl.gz", "servers.audits.jsonl"
# What a trace of other programs does not say.
MACHINE = "two processor cores with AVX-512 bf16, busy with other work: its shapes count, not its speeds"


class Page(TaskPage):
    def functions(self) -> list[ServerFunction]:
        async def recording(_: Any) -> dict[str, Any]:
            return recorded()

        return [recording]


@cache
def recorded() -> dict[str, Any]:
    """The lanes with each burst's text and time in ms, what was asked of them, and the audits' last events."""
    folder = assets() / "lessons"
    events = files.read(folder / RACE).events
    starts = [event for event in events if isinstance(event, RunStart)]
    audits = (folder / AUDITS).read_text(encoding="utf-8").splitlines()
    return {
        "prompt": starts[0].prompt,
        "temperature": starts[0].settings["temperature"],
        "created": starts[0].created[:10],
        "machine": MACHINE,
        "lanes": [lane(start, [event for event in events if event.lane == start.lane]) for start in starts],
        "audits": [json.loads(line) for line in audits],
    }


def lane(start: RunStart, events: list[AnyEvent]) -> dict[str, Any]:
    """One server: what it is, when its tokens arrived, and what it counted over all of its answers."""
    about = start.server
    assert about is not None  # a lane of a server
    *_, served = (event for event in events if isinstance(event, Served))
    bursts = [event for event in events if isinstance(event, Burst)]
    return {
        "name": start.lane,
        "program": f"{title_of(about.program)} {about.version}",
        "model": about.model.rstrip("/").split("/")[-1],
        "bursts": [[event.end, len(event.emitted), event.text_delta] for event in bursts],
        "drafted": served.drafted,
        "accepted": served.accepted,
    }
