"""Acceptance that was measured elsewhere, read from a file: a server's counters or log, a benchmark's JSON, a curve.

- vLLM's `/metrics` page: accepted tokens by position over drafts, both counted since the server started
- vLLM's log: its lines of `SpecDecoding metrics`, each about the seconds since the last one, by their numbers of drafts
- JSON of `vllm bench serve`: `spec_decode_per_position_acceptance_rates`; other JSON: a list of shares, or an object
  with one of `NAMES`
- text: shares by position, one a line or separated by commas, as a golden acceptance curve is kept

Shares are of all rounds, as servers count them, unless the object says `"conditional": true`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError, read_bytes
from draftscope.servers.prometheus import spec_decode

NAMES = (
    "spec_decode_per_position_acceptance_rates", "per_position_acceptance_rates", "acceptance_rates", "acceptance",
    "alpha",
)  # fmt: skip
LOGGED = re.compile(r"Drafted: (\d+) tokens, Per-position acceptance rate: (\d\.\d+(?:, \d\.\d+)*)")


@dataclass(frozen=True)
class ReadCurve:
    """Acceptance by position, and whether each is given that all before were accepted."""

    alpha: tuple[float, ...]
    conditional: bool
    source: str


def read(path: Path) -> ReadCurve:
    """The curve of a file. Raises `DraftscopeError` for a file that cannot be read or holds none."""
    text = read_bytes(path).decode("utf-8", "replace")
    curve = _counters(text) or _log(text) or _json(text) or _lines(text)
    if curve is None or not curve.alpha:
        raise DraftscopeError(
            f"The file '{path}' holds no acceptance by position; give vLLM's /metrics page or log, JSON of 'vllm bench "
            "serve', or shares by position, such as .7,.42,.21."
        )
    return curve


def _counters(text: str) -> ReadCurve | None:
    """Of a metrics page; all engines of the server together."""
    counted = spec_decode(text, "vllm")
    if counted is None or not counted.rounds or not counted.by_position:
        return None
    shares = tuple(accepted / counted.rounds for accepted in counted.by_position)
    return ReadCurve(shares, False, "vLLM's counters")


def _log(text: str) -> ReadCurve | None:
    """Of a log; a position that a line does not name was not drafted there."""
    lines = [(int(drafted), [float(rate) for rate in rates.split(",")]) for drafted, rates in LOGGED.findall(text)]
    drafts = [drafted / len(rates) for drafted, rates in lines]
    if not sum(drafts):
        return None
    sums = [0.0] * max(len(rates) for _, rates in lines)
    for count, (_, rates) in zip(drafts, lines, strict=True):
        for position, rate in enumerate(rates):
            sums[position] += count * rate
    return ReadCurve(tuple(total / sum(drafts) for total in sums), False, "vLLM's log")


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
