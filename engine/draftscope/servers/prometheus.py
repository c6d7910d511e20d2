"""Counters of speculation in Prometheus' text format; vLLM and llama.cpp name them alike but for the prefix."""

from __future__ import annotations

import math
import re

from draftscope.base.errors import quoted
from draftscope.servers.adapter import MAX_COUNT, MAX_ROUND, Counted, CounterError

LINE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>[^\n]*)\})?\s+(?P<value>\S{1,40})\s*$", re.MULTILINE)
POSITION = re.compile(r'position="(\d{1,4})"')


def spec_decode(text: str, prefix: str) -> Counted | None:
    """What `text` counts, summed over engines; None if the server does not speculate or does not count it.

    Raises `CounterError` for a number that no counter can have.
    """
    totals: dict[str, int] = {}
    positions: dict[int, int] = {}
    for match in LINE.finditer(text):
        name = match["name"].removeprefix(f"{prefix}:spec_decode_num_").removesuffix("_total")
        if not match["name"].startswith(f"{prefix}:spec_decode_num_"):
            continue
        value = _count(match["name"], match["value"])
        totals[name] = totals.get(name, 0) + value
        at = POSITION.search(match["labels"] or "")
        if at and name == "accepted_tokens_per_pos" and int(at[1]) < MAX_ROUND:
            positions[int(at[1])] = positions.get(int(at[1]), 0) + value
    if "drafts" not in totals and "draft_tokens" not in totals:
        return None
    return Counted(
        rounds=totals.get("drafts"),
        drafted=totals.get("draft_tokens"),
        accepted=totals.get("accepted_tokens"),
        by_position=tuple(positions.get(i, 0) for i in range(max(positions, default=-1) + 1)),
    )


def _count(name: str, written: str) -> int:
    try:
        value = float(written)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MAX_COUNT:
        raise CounterError(f"The server's counter {quoted(name)} is {quoted(written)}, which is no count; restart it.")
    return int(value)
