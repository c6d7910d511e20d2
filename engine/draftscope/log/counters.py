"""What a server counts, as its `/metrics` page says it in Prometheus' text format: vLLM, llama.cpp and SGLang.

SGLang has gauges only: means of the steps before, without the number of rounds that they are of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from draftscope.log.entries import RoundsRead, Tally
from draftscope.servers.prometheus import LINE, spec_decode

COUNTED = {"vllm": "vLLM's counters", "llamacpp": "llama.cpp's counters"}
GAUGES = ("sglang:spec_accept_length", "sglang:spec_accept_rate")
MEANS = "Means of the last steps before the page was asked, as SGLang says them; of how many rounds it does not say."


def read_counters(text: str) -> RoundsRead | None:
    """All engines of a server together, since it started. None where the text has no counter of speculation.

    Raises `CounterError` for a number that no counter can have.
    """
    for prefix, source in COUNTED.items():
        counted = spec_decode(text, prefix)
        if counted is None:
            continue
        both = counted.rounds is not None and counted.accepted is not None
        emitted = (counted.rounds or 0) + (counted.accepted or 0) if both else None
        kept = counted.by_position or None
        tally = Tally("all requests", counted.rounds, counted.drafted, counted.accepted, emitted, kept)
        return RoundsRead(source, tallies=(tally,))
    length, rate = (_mean(text, name) for name in GAUGES)
    if length is None and rate is None:
        return None
    return RoundsRead("SGLang's gauges", tallies=(Tally("now", length=length, rate=rate),), notes=(MEANS,))


def _mean(text: str, name: str) -> float | None:
    """Of all ranks, which say the same; not of an engine that only drafts."""
    values = list(_values(text, name))
    return sum(values) / len(values) if values else None


def _values(text: str, name: str) -> Iterator[float]:
    for match in LINE.finditer(text):
        if match["name"] == name and 'engine_type="draft"' not in (match["labels"] or ""):
            try:
                value = float(match["value"])
            except ValueError:
                continue
            if math.isfinite(value) and value >= 0:
                yield value
