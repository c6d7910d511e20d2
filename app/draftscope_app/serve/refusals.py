"""Gradio's routes, as strangers may use them: those that this page needs, and mistakes as one sentence each.

Gradio answers 500 to any call that it or a listener cannot read, `{"error": null}` or no JSON at all. Others of its
routes have no use here: they cut videos, fetch addresses for whoever asks, or keep what they are sent.
"""

from __future__ import annotations

import errno
import json
from contextlib import suppress
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from draftscope_app.serve import logged_errors

API = "/gradio_api/"
CLOSED = (
    *("process_recording", "vibe-", "undo-vibe-edit", "stream/", "proxy=", "custom_component/", "run-history/"),
    *("dev/", "deep_link", "profiling/", "file=http:", "file=https:", "file/http:", "file/https:"),
)
MAX_NAME = 255  # bytes of a part of a path, on every usual file system
NO_ROUTE = "There is nothing at this address."
UNREADABLE = "The server cannot read this call; what a call takes is at /gradio_api/info."
FULL_DISK = "The disk of the server is full, so nothing of this was kept; tell whoever runs the server."


class Refusals:
    """Answers 404 for closed routes and for paths that no file can have, 400 where Gradio fails at a call, and 507
    where the disk is full."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if _is_closed(path) or _is_no_path(path):
            await PlainTextResponse(NO_ROUTE, 404)(scope, receive, send)
        elif scope["method"] == "POST" and API in path:
            await self._answered(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The call's answer; a 500, which comes in one piece, is held back and becomes a 400 with a sentence."""
        begun, failed = False, False

        async def pass_on(message: Message) -> None:
            nonlocal begun, failed
            if message["type"] == "http.response.start" and message["status"] == 500:
                failed = True
            elif not failed:
                begun = True
                await send(message)
            elif not message.get("more_body", False):
                await JSONResponse({"error": _sentence(message.get("body", b""))}, 400)(scope, receive, send)

        try:
            await self._app(scope, receive, pass_on)
        except Exception as error:
            if begun:
                raise
            logged_errors.write(error)
            full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
            answer = JSONResponse({"error": FULL_DISK}, 507) if full else JSONResponse({"error": UNREADABLE}, 400)
            await answer(scope, receive, send)


def _is_closed(path: str) -> bool:
    return path.rpartition(API)[2].lstrip("/").startswith(CLOSED) if API in path else False


def _is_no_path(path: str) -> bool:
    return "\0" in path or any(len(part.encode()) > MAX_NAME for part in path.split("/"))


def _sentence(body: bytes) -> str:
    """The one that a listener gave, if it did."""
    said: Any = None
    with suppress(ValueError, TypeError, KeyError):
        said = json.loads(body)["error"]
    return said if isinstance(said, str) else UNREADABLE
