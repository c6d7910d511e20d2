"""Deltas: small JSON strings that the page's one generator yields, about twenty a second, for all lanes of a run.

A delta is `{"seq", "run", "ev": [events], ...}`: `seq` events of the run came before, and a page with fewer asks for
the rest. Events are passed on as the lines that the engine process wrote. A hidden tab loses updates that are objects,
and some strings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from draftscope.trace.events import AnyEvent
from draftscope.trace.files import line
from draftscope_app.engine.answers import Answer, Part
from draftscope_app.engine.jobs import new_id
from draftscope_app.engine.run_job import RunJob
from draftscope_app.engine.visitors import Visitor


def delta(seq: int, run: str, lines: Iterable[str], **more: Any) -> str:
    """One delta of a run. `more`: source, paced, state, waits, note, whole."""
    rest = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in more.items())
    return f'{{"seq": {seq}, "run": {json.dumps(run)}, "ev": [{",".join(lines)}]{rest}}}'


def note(sentence: str) -> str:
    """One sentence for the reader; what is shown stays. Never the same string twice: the page would not notice it."""
    return f'{{"seq": {json.dumps(new_id())}, "note": {json.dumps(sentence)}}}'


def rest(visitor: Visitor, start: int = 0, **more: Any) -> str:
    """The visitor's run from its event number `start` on: for a page that has missed a delta, or was reloaded."""
    shown, latest = visitor.shown, visitor.latest
    state = latest.state if latest is not None and latest.log is shown else "done"
    return delta(start, shown.run, shown.lines[start:], source="live", state=state, **more)


def recording(events: Sequence[AnyEvent], sentence: str = "") -> str:
    """A whole recorded run in one delta."""
    return delta(0, new_id(), (line(event) for event in events), source="recorded", note=sentence, state="done")


class RunFeed:
    """A run as a page shows it, in deltas: the page shows it as soon as there is something of it."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor, self._begun = visitor, False

    async def show(self, answer: Answer, part: Part) -> str:
        visitor, paced = self._visitor, not (isinstance(answer.job, RunJob) and answer.job.steps)
        if answer.lines and visitor.latest is answer:  # a refused run leaves the page as it was
            visitor.shown = answer.log
        more = {} if self._begun and part.note is None else {"note": part.note or ""}
        self._begun = True
        return delta(
            part.start, answer.log.run, part.lines, source="live", paced=paced, state=part.standing, waits=part.waits,
            **more,
        )  # fmt: skip

    def refuse(self, sentence: str) -> str:
        return note(sentence)
