"""Deltas: small JSON strings that the page's one generator yields, about twenty a second, for all lanes of a run.

A delta is `{"seq", "run", "ev": [events], ...}`; events are passed on as the lines that the engine process wrote.
Strings that begin with a changing `seq` are what a hidden tab does not lose.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from draftscope.trace.events import AnyEvent
from draftscope.trace.files import line
from draftscope_app.engine.process import EngineProcess, RunHandle
from draftscope_app.engine.messages import Happened, Refused
from draftscope_app.engine.sessions import Visitor, new_run_id

PERIOD_S = 0.05


def delta(seq: int, run: str, lines: Iterable[str], **more: Any) -> str:
    """One delta of a run. `more`: source, paced, state, place, note, follow."""
    rest = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in more.items())
    return f'{{"seq": {seq}, "run": {json.dumps(run)}, "ev": [{",".join(lines)}]{rest}}}'


def note(sentence: str) -> str:
    """One sentence for the reader; what is shown stays. Never twice the same string, or the page would not hear it."""
    return f'{{"seq": {json.dumps(new_run_id())}, "note": {json.dumps(sentence)}}}'


def whole(visitor: Visitor) -> str:
    """The visitor's run from its beginning: for a page that has missed a delta."""
    handle = visitor.handle  # perhaps a comparison's or a check's
    state = handle.state if handle is not None and handle.job.run == visitor.run else "done"
    text = delta(visitor.sent, visitor.run, visitor.lines, source="live", state=state)
    return f'{{"whole": {json.dumps(new_run_id())}, {text[1:]}'


def settled(visitor: Visitor) -> str:
    """How many deltas a run has had: the page asks for the whole run where it has seen fewer."""
    return json.dumps({"seq": new_run_id(), "over": visitor.run, "sent": visitor.sent})


def recording(events: Sequence[AnyEvent], sentence: str = "") -> str:
    """A whole recorded run in one delta."""
    return delta(0, new_run_id(), (line(event) for event in events), source="recorded", note=sentence, state="done")


async def stream(engine: EngineProcess, visitor: Visitor, handle: RunHandle) -> AsyncIterator[str]:
    """Everything that happens to a run, until it is over. A reader who leaves ends the run."""
    run, seq, shown = handle.job.run, 0, ""
    # An older run of this visitor may still be ending: it keeps its lines to itself. A fork adds to the shown ones.
    own, joined = (visitor.lines, visitor.run) if handle.job.joins else ([], "")
    shown_before = len(own)
    stepping = handle.job.steps is not None
    try:
        while True:
            over = handle.done
            messages = handle.drain()
            lines = [message.line for message in messages if isinstance(message, Happened)]
            notes = [message.sentence for message in messages if isinstance(message, Refused)]
            state = standing(engine, handle)
            if lines and len(own) == shown_before:
                visitor.lines, visitor.run = own, run
            own += lines
            if seq == 0 or lines or notes or state != shown:
                more: dict[str, Any] = {"state": handle.state, "place": engine.place(handle)}
                if seq == 0:
                    more |= {"joins": joined} if joined else {"source": "live", "paced": not stepping}
                    more["note"] = ""
                if notes:
                    more["note"] = notes[-1]
                if handle.state == "queued" and engine.status.phase == "loading":
                    more["state"] = "waiting"
                if visitor.run == run:
                    visitor.sent = seq + 1
                yield delta(seq, run, lines, **more)
                seq, shown = seq + 1, state
            if over:
                return
            await asyncio.sleep(PERIOD_S)
    finally:
        handle.stop()


def standing(engine: EngineProcess, handle: RunHandle) -> str:
    """State and place in one string, to see when either has changed."""
    return f"{handle.state} {engine.place(handle)} {engine.status.phase}"
