"""A log that a visitor chooses, or drops: its text is read here, and nothing of it is kept."""

from __future__ import annotations

import asyncio
from typing import Any

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.log.log_summary import summarize
from draftscope.log.read import read_text
from draftscope_app.doors.servers.rounds.printed_over_time import alarm, course
from draftscope_app.doors.servers.rounds.shown import POSITIONS, by_position, counted, said_of, unknown
from draftscope_app.page.layout import ServerFunction
from draftscope_app.page.task import TaskPage

MAX_TEXT = 500_000  # characters; the card sends the lines that can say something, and as many as fit


class Page(TaskPage):
    def functions(self) -> list[ServerFunction]:
        async def logged_rounds(sent: Any) -> dict[str, Any]:
            return await asyncio.to_thread(answered, sent)

        return [logged_rounds]


def answered(sent: Any) -> dict[str, Any]:
    """What the card shows of a log, or a `note` that says why there is nothing. Anybody can send any JSON."""
    text = sent.get("text") if isinstance(sent, dict) else None
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return {"note": f"A log is a text of at most {MAX_TEXT:,} characters here; use 'draftscope rounds FILE'."}
    try:
        log = read_text(text, f"'{quoted(str(sent.get('name', 'the file')))}'")
    except DraftscopeError as error:
        return {"note": str(error)}
    summary, seen = summarize(log), course(log)
    return {
        "said": quoted(said_of(log), 500),
        "rows": counted(summary),
        "heads": POSITIONS,
        "positions": by_position(summary),
        "unknown": unknown(summary),
        "notes": log.notes,
        "course": None if seen is None else seen.drawn(),
        "alarm": alarm(log),
    }
