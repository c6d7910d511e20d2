"""Structured logs: a line of JSON on stderr for each start, run and end. Never what a visitor wrote."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal

Kind = Literal["json", "off"]

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
