"""Who is looking at the page: each visitor's run in progress, and the run that their page shows."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from draftscope_app.engine.process import RunHandle

MOST_KEPT = 256

_numbers = itertools.count(1)


@dataclass
class Visitor:
    """One open page. `lines` are the trace of the run that is shown, as they came; `sent` counts its deltas."""

    lines: list[str] = field(default_factory=list)
    run: str = ""
    sent: int = 0
    handle: RunHandle | None = None
    calls: set[RunHandle] = field(default_factory=set)  # of the API, beside the page's run

    def replace(self, handle: RunHandle | None) -> None:
        """A new run takes the place of the one in progress."""
        if self.handle is not None:
            self.handle.stop()
        self.handle = handle

    @contextmanager
    def call(self, handle: RunHandle) -> Iterator[None]:
        """A run that this visitor waits for in one call."""
        self.calls.add(handle)
        try:
            yield
        finally:
            self.calls.discard(handle)

    @property
    def active(self) -> RunHandle | None:
        return self.handle if self.handle is not None and self.handle.state != "done" else None

    @property
    def idle(self) -> bool:
        """Nothing of this visitor's is decoded or waits."""
        return self.active is None and not self.calls


class Visitors:
    """By Gradio's session hash. A program may come under many and never say that it left: the oldest are forgotten."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._visitors: dict[str, Visitor] = {}  # the one heard of last stands last
        self._most = most
        self._lock = threading.Lock()

    def of(self, session: str | None) -> Visitor:
        with self._lock:  # listeners run in threads
            visitor = self._visitors[session or ""] = self._visitors.pop(session or "", None) or Visitor()
            if len(self._visitors) > self._most:
                idle = next((name for name, one in self._visitors.items() if one.idle and one is not visitor), None)
                if idle is not None:
                    del self._visitors[idle]
            return visitor

    def left(self, session: str | None) -> None:
        with self._lock:
            visitor = self._visitors.pop(session or "", None)
        if visitor is not None:
            visitor.replace(None)
            for handle in list(visitor.calls):
                handle.stop()

    def models_changed(self) -> None:
        """What was decoded so far cannot be forked any more: it was other models' work."""
        with self._lock:
            for visitor in self._visitors.values():
                visitor.run = ""

    def __len__(self) -> int:
        return len(self._visitors)


def new_run_id() -> str:
    return f"r{next(_numbers)}"
