"""Deltas: small JSON strings that the page's one generator yields, about twenty a second, for all lanes of a run.

A delta is `{"seq", "run", "ev": [events], ...}`; events are passed on as the lines that the engine process wrote.
A hidden tab loses updates that are objects, but not strings that begin with a changing `seq`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from draftscope.trace.events import AnyEvent
from draftscope.trace.files import line
from draftscope_app.engine.handle import RunHandle
from draftscope_app.engine.interface import Engine
from draftscope_app.engine.messages import Happened, Noted, Refused
from draftscope_app.engine.sessions import Shown, Visitor, new_run_id

PERIOD_S = 0.05


def delta(seq: int, run: str, lines: Iterable[str], **more: Any) -> str:
    """One delta of a run. `more`: source, paced, state, place, note, follow."""
    rest = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in more.items())
    return f'{{"seq": {seq}, "run": {json.dumps(run)}, "ev": [{",".join(lines)}]{rest}}}'


def note(sentence: str) -> str:
    """One sentence for the reader; what is shown stays. Never the same string twice: the page would not notice it."""
    return f'{{"seq": {json.dumps(new_run_id())}, "note": {json.dumps(sentence)}}}'


def whole(visitor: Visitor) -> str:
    """The visitor's run from its beginning: for a page that has missed a delta, or was reloaded."""
    shown, handle = visitor.shown, visitor.handle
    state = handle.state if handle is not None and handle.job.run == shown.run else "done"  # else a comparison or check
    text = delta(shown.sent, shown.run, shown.lines, source="live", state=state)
    return f'{{"whole": {json.dumps(new_run_id())}, {text[1:]}'


def settled(visitor: Visitor) -> str:
    """How many deltas a run has had: a page that has received fewer asks for the whole run."""
    return json.dumps({"seq": new_run_id(), "over": visitor.shown.run, "sent": visitor.shown.sent})


def recording(events: Sequence[AnyEvent], sentence: str = "") -> str:
    """A whole recorded run in one delta."""
    return delta(0, new_run_id(), (line(event) for event in events), source="recorded", note=sentence, state="done")


async def stream(engine: Engine, visitor: Visitor, handle: RunHandle) -> AsyncIterator[str]:
    """Everything that happens to a run, until it is over or another stream reads it. A reader who leaves ends the run,
    if nobody comes back in time. A run that has begun is continued after the deltas that were sent."""
    run, last = handle.job.run, ""
    begun = visitor.shown.run == run
    seq = visitor.shown.sent if begun else 0
    # An older run of this visitor may still be ending; its lines are not shown. A fork adds to the shown lines.
    shown, joined = (visitor.shown, visitor.shown.run) if handle.job.joins or begun else (Shown(), "")
    reader = handle.reader = object()
    try:
        while handle.reader is reader:
            changes = engine.changed.count
            over = handle.over  # read before the messages, so that none is left
            messages = handle.drain()
            lines = [message.line for message in messages if isinstance(message, Happened)]
            notes = [message.sentence for message in messages if isinstance(message, Noted | Refused)]
            if lines and not begun:
                begun, shown.run, visitor.shown = True, run, shown
            shown.add(lines)
            now = standing(engine, handle)
            if seq == 0 or lines or notes or now != last:
                if visitor.shown.run == run:
                    visitor.shown.sent = seq + 1
                more = _first(handle, joined) if seq == 0 else {}
                if notes:
                    more["note"] = notes[-1]
                yield delta(seq, run, lines, **more, state=_state(engine, handle), place=engine.place(handle))
                seq, last = seq + 1, now
            if over:
                return
            await asyncio.sleep(PERIOD_S)
            await engine.changed.wait(changes)
    finally:
        if handle.reader is reader:
            handle.unread(visitor.keep_s)


def _first(handle: RunHandle, joined: str) -> dict[str, Any]:
    """Fields of a run's first delta only. A fork names the run that its lane joins."""
    about = {"joins": joined} if joined else {"source": "live", "paced": handle.job.steps is None}
    return {**about, "note": ""}


def _state(engine: Engine, handle: RunHandle) -> str:
    """The run's state; "waiting" for a run that waits for the models."""
    return "waiting" if handle.state == "queued" and engine.status.phase == "loading" else handle.state


def standing(engine: Engine, handle: RunHandle) -> str:
    """State and place in one string, to see when either has changed."""
    return f"{_state(engine, handle)} {engine.place(handle)}"
