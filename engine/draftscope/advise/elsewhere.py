"""Acceptance that was measured elsewhere, read from a file: a server's counters or log, a benchmark's JSON, a curve.

- any log that `draftscope.log` reads: vLLM's log or `/metrics` page, a log of rounds, a trace, answers in JSON
- JSON of `vllm bench serve`: `spec_decode_per_position_acceptance_rates`; other JSON: a list of shares, or an object
  with one of `NAMES`
- text: shares by position, one a line or separated by commas, as a golden acceptance curve is kept

Shares are of all rounds, as servers count them, unless the object says `"conditional": true`, or a log tells which
rounds drafted a position at all.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError, read_bytes
from draftscope.log.log_summary import summarize
from draftscope.log.read import read as read_log

NAMES = (
    "spec_decode_per_position_acceptance_rates", "per_position_acceptance_rates", "acceptance_rates", "acceptance",
    "alpha",
)  # fmt: skip


@dataclass(frozen=True)
class ReadCurve:
    """Acceptance by position, and whether each is given that all before were accepted."""

    alpha: tuple[float, ...]
    conditional: bool
    source: str


def read(path: Path) -> ReadCurve:
    """The curve of a file. Raises `DraftscopeError` for a file that cannot be read or holds none."""
    text = read_bytes(path).decode("utf-8", "replace")
    curve = _json(text) or _log(path) or _lines(text)
    if curve is None or not curve.alpha:
        raise DraftscopeError(
            f"The file '{path}' holds no acceptance by position; give vLLM's /metrics page or log, JSON of 'vllm bench "
            "serve', a log of rounds, or shares by position, such as .7,.42,.21."
        )
    return curve


def _log(path: Path) -> ReadCurve | None:
    """Of any log that says acceptance by position; a position that no round drafted is none."""
    try:
        log = read_log(path)
    except DraftscopeError:
        return None
    positions = summarize(log).positions or ()
    drafted = tuple(
        position.conditional for position in positions if position.reached and position.conditional is not None
    )
    if drafted:
        return ReadCurve(drafted, True, log.source)
    return ReadCurve(tuple(position.share for position in positions), False, log.source)


def _json(text: str) -> ReadCurve | None:
    try:
        content = json.loads(text)
    except ValueError:
        return None
    values = content if isinstance(content, list) else _named(content) if isinstance(content, dict) else None
    if values is None or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return None
    conditional = isinstance(content, dict) and content.get("conditional") is True
    return ReadCurve(tuple(map(float, values)), conditional, "a JSON file")


def _named(content: dict[str, Any]) -> list[Any] | None:
    return next((content[name] for name in NAMES if isinstance(content.get(name), list)), None)


def _lines(text: str) -> ReadCurve | None:
    try:
        return ReadCurve(tuple(float(part) for part in re.split(r"[\s,;]+", text.strip()) if part), False, "a curve")
    except ValueError:
        return None
