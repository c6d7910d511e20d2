"""Structured logs: a line of JSON on stderr for each start, run and end. Never what a visitor wrote."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

Kind = Literal["json", "off"]

PLACES = 6  # of an error, the innermost last

_log = logging.getLogger("draftscope.server")


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": when, "event": record.msg} | getattr(record, "fields", {}))


def configure(kind: Kind) -> None:
    """'json' writes lines from now on; 'off' writes none."""
    _log.handlers.clear()
    _log.propagate = False
    _log.setLevel(logging.INFO if kind == "json" else logging.CRITICAL)
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines())
    _log.addHandler(handler)


def write(event: str, **fields: Any) -> None:
    _log.info(event, extra={"fields": fields})


def places_of(error: BaseException | None) -> list[str]:
    """Where an error was raised, without its message, which may quote a visitor."""
    frames = traceback.extract_tb(error.__traceback__ if error is not None else None)[-PLACES:]
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
