"""Who is looking at the page: each visitor's run in progress, and the run that their page shows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from draftscope_app.engine_process import RunHandle

_numbers = itertools.count(1)


@dataclass
class Visitor:
    """One open page. `lines` are the trace of the run that is shown, as they came; `sent` counts its deltas."""

    lines: list[str] = field(default_factory=list)
    run: str = ""
    sent: int = 0
    handle: RunHandle | None = None

    def replace(self, handle: RunHandle | None) -> None:
        """A new run takes the place of the one in progress."""
        if self.handle is not None:
            self.handle.stop()
        self.handle = handle

    @property
    def active(self) -> RunHandle | None:
        return self.handle if self.handle is not None and self.handle.state != "done" else None


class Visitors:
    """By Gradio's session hash."""

    def __init__(self) -> None:
        self._visitors: dict[str, Visitor] = {}

    def of(self, session: str | None) -> Visitor:
        return self._visitors.setdefault(session or "", Visitor())

    def left(self, session: str | None) -> None:
        visitor = self._visitors.pop(session or "", None)
        if visitor is not None:
            visitor.replace(None)

    def __len__(self) -> int:
        return len(self._visitors)


def new_run_id() -> str:
    return f"r{next(_numbers)}"
