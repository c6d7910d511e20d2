"""What answers at an address, in a sentence: asked within a second or so, and not again for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from draftscope.base.errors import quoted
from draftscope.servers.adapter import Server, ServerError
from draftscope.servers.programs.program_list import identify, titled
from draftscope.servers.wire import WireLimits

LIMITS = WireLimits(connect=0.5, silent=0.8, total=0.8)  # of each of the few things that are asked
MAX_SHOWN = 80  # characters of a model's name
AGAIN_S = 2.0  # until the same address is asked again


class Looks:
    """One look at an address at a time; what it saw holds for `AGAIN_S`, however many ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at: dict[str, threading.Lock] = {}
        self._seen: dict[str, tuple[float, dict[str, Any]]] = {}

    def look(self, url: str, listed: Sequence[str]) -> dict[str, Any]:
        """Blocking. `listed` are addresses that the operator has listed, which may be called too."""
        with self._lock:
            at = self._at.setdefault(url, threading.Lock())
        with at:
            when, seen = self._seen.get(url, (0.0, {}))
            if not seen or time.monotonic() - when > AGAIN_S:
                seen = looked(url, listed)
                self._seen[url] = time.monotonic(), seen
            return seen

    def forget(self, url: str) -> None:
        with self._lock:
            self._at.pop(url, None)
            self._seen.pop(url, None)


def looked(url: str, listed: Sequence[str]) -> dict[str, Any]:
    """Whether it answers, after how many milliseconds, and in a sentence the program, the model, and if it drafts."""
    began = time.monotonic()
    try:
        with identify(url, listed, limits=LIMITS) as server:
            ms = 1e3 * (time.monotonic() - began)
            about = server.identity
            model = quoted(about.model.rstrip("/").split("/")[-1], MAX_SHOWN)
            return {"answers": True, "ms": round(ms), "words": f"{titled(about)} · {model} · {_drafts(server)}"}
    except ServerError as error:
        return {"answers": False, "ms": None, "words": str(error)}


def _drafts(server: Server) -> str:
    """By its own counters."""
    try:
        counted = server.counters()
    except ServerError:
        return "does not say whether it speculates"
    if counted is None:
        return "counts no drafts, so it does not speculate or does not say so"
    if not counted.drafted:
        return "speculates; nothing drafted yet"
    return f"speculates: {counted.accepted or 0:,} of {counted.drafted:,} drafted tokens accepted since it started"
