"""Structured logs: a line of JSON on stderr for each start, run and end. Never what a visitor wrote."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from draftscope_app.engine.process import RunHandle

_log = logging.getLogger("draftscope.server")


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": when, "event": record.msg} | getattr(record, "fields", {}))


def open_journal(kind: str) -> None:
    """'json' writes lines from now on; anything else writes none."""
    _log.handlers.clear()
    _log.propagate = False
    _log.setLevel(logging.INFO if kind == "json" else logging.CRITICAL)
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines())
    _log.addHandler(handler)


def tell(event: str, **fields: Any) -> None:
    _log.info(event, extra={"fields": fields})


def run_over(handle: RunHandle) -> None:
    """The end of a run: how long it waited and took. A refusal's sentence may hold what a visitor wrote: not told."""
    now = time.monotonic()
    begun = handle.begun or now
    tell(
        "run",
        run=handle.job.run,
        lanes=len(handle.job.lanes),
        most_tokens=handle.job.lanes[-1][1].get("max_new_tokens"),
        waited_s=round(begun - handle.asked, 3),
        took_s=round(now - begun, 3),
        stopped=handle.stopped,
        refused=handle.refused,
    )
