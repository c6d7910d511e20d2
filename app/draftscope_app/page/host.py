"""Requests of the instrument with one answer each: a new tab's name, the whole shown run, a file of it, a QR code.

They are `server_functions` of the instrument's `gr.HTML`. Anybody can call them with any JSON, so each checks what it
was sent. Forks, comparisons and checks are events instead: their answers come in many parts.
"""

from __future__ import annotations

import asyncio
import base64
import tempfile
from pathlib import Path
from typing import Any, Literal

import gradio as gr
import segno

from draftscope.base.errors import DraftscopeError
from draftscope.trace import files, html
from draftscope.trace.events import AnyEvent
from draftscope_app.engine.admission import PageRequest
from draftscope_app.engine.answers import REMOVED
from draftscope_app.page.layout import ServerFunction
from draftscope_app.page.runs import recorded
from draftscope_app.page.runs.feed import note, rest
from draftscope_app.page.shared import Shared

LONGEST_QR = 800  # characters


class SaveRequest(PageRequest):
    """A run to save: the one recorded for the named lesson, or the visitor's if `lesson` is empty."""

    kind: Literal["trace", "page"]
    lesson: str


def functions(shared: Shared) -> list[ServerFunction]:
    """The server's functions, by the names under which the page calls them."""

    async def again(start: Any, request: gr.Request) -> str:
        visitor = shared.visitors.of(await session_of(request))
        if visitor.shown.removed:
            return note(REMOVED)
        return rest(visitor, start if isinstance(start, int) and start > 0 else 0) if visitor.shown.run else ""

    async def claim(token: Any, request: gr.Request) -> str:
        """A new tab has nothing to go on with: that is told by its token alone."""
        try:
            shared.visitors.claim(await session_of(request), token if isinstance(token, str) else "")
            return ""
        except DraftscopeError as error:
            return note(str(error))

    async def save(message: Any, request: gr.Request) -> dict[str, str]:
        try:
            wanted = SaveRequest.of(message)
            session = await session_of(request)
            return await asyncio.to_thread(_saved, shared, wanted, session)
        except DraftscopeError as error:
            return {"note": str(error)}

    async def qr(text: Any) -> list[str]:
        return qr_rows(text) if isinstance(text, str) else []

    return [again, claim, save, qr]


def qr_rows(text: str) -> list[str]:
    """A QR code of a link, row by row, "1" for dark; none for a text that no camera would read from a screen."""
    if not 0 < len(text) <= LONGEST_QR:
        return []
    return ["".join(map(str, row)) for row in segno.make_qr(text, error="m").matrix]


async def session_of(request: Any) -> str:
    """The session that calls a server function; empty without one. Gradio names it only in the body of the request."""
    try:
        return str((await request.json())["session_hash"])
    except (ValueError, KeyError, TypeError, RuntimeError):
        return ""


def _saved(shared: Shared, wanted: SaveRequest, session: str) -> dict[str, str]:
    """Name and content, in base64, of a file of the run that is shown."""
    events = list(recorded.events(wanted.lesson)) if wanted.lesson else shared.events(session)
    if not events:
        raise DraftscopeError("There is no run to save yet; press Run first.")
    if wanted.kind == "page":
        return _file("draftscope-run.html", html.page(events).encode())
    return _file("draftscope-run.jsonl.gz", _trace(events))


def _trace(events: list[AnyEvent]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="draftscope-") as folder:
        path = Path(folder) / "run.jsonl.gz"
        files.write(path, events)
        return path.read_bytes()


def _file(name: str, content: bytes) -> dict[str, str]:
    return {"name": name, "data": base64.b64encode(content).decode("ascii")}
