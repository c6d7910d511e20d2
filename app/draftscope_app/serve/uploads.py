"""Files that visitors upload: the folder that they lie in, and how much may come and stay.

Gradio bounds the size of a file, but takes a thousand of them in one request, keeps what was uploaded for an hour, and
never removes the part of a file whose upload broke off, or which the disk did not take.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections import Counter
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from draftscope_app.serve.bodies import is_upload, stated_length

AT_ONCE, AT_ONCE_ADDRESS = 8, 6  # uploads, in all and of one address
UPLOAD_S = 120.0  # within which one must have come
KEPT, MAX_FILES = 8, 256  # files that stay: the bytes of so many of the largest, and how many
BESIDE = 2**20  # bytes of a request beside its file
FULL = "Too many files are being uploaded at once, and this server takes no more; try again in a moment."
OTHER_CODING = "The upload names its files in another coding than UTF-8; send it as browsers do, without 'charset'."
SLOW = f"An upload must have come within {UPLOAD_S:.0f} s, and this one had not; load a smaller file."


_parts: ContextVar[list[str]] = ContextVar("parts")  # the files that the upload at hand has begun


class Uploads:
    """The folder: a temporary one for each server, unless the environment names one."""

    VARIABLE = "GRADIO_TEMP_DIR"

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def open(self) -> None:
        if not os.environ.get(self.VARIABLE):
            self._folder = tempfile.TemporaryDirectory(prefix="draftscope-", ignore_cleanup_errors=True)
            os.environ[self.VARIABLE] = self._folder.name

    def close(self) -> None:
        if self._folder is not None:
            if os.environ.get(self.VARIABLE) == self._folder.name:
                del os.environ[self.VARIABLE]
            self._folder.cleanup()


def note_parts() -> None:
    """From now on, in this process: Gradio's parser names the files that it begins."""
    from gradio import route_utils

    begin = tempfile.NamedTemporaryFile

    def begun(*given: Any, **named: Any) -> Any:
        file = begin(*given, **named)
        _parts.get([]).append(file.name)
        return file

    vars(route_utils)["NamedTemporaryFile"] = begun


class BoundedUploads:
    """Refuses an upload that is too large, takes too long, or is one of too many at once; and removes old files."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most
        self._now: Counter[str] = Counter()  # of each address
        self._kept: dict[str, int] = {}  # path -> bytes, the oldest first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_upload(scope):
            await self._app(scope, receive, send)
            return
        address = (scope.get("client") or ("",))[0]
        if status := self._refused(scope, address):
            await JSONResponse({"error": status[1]}, status[0])(scope, receive, send)
            return
        self._now[address] += 1
        try:
            await self._stored(scope, receive, send)
        finally:
            self._now[address] -= 1

    def _refused(self, scope: Scope, address: str) -> tuple[int, str] | None:
        """Status and sentence for an upload that is not read."""
        if self._now.total() >= AT_ONCE or self._now[address] >= AT_ONCE_ADDRESS:
            return 503, FULL
        if stated_length(scope) > self._most + BESIDE:
            return 413, self._large()
        kind = Headers(scope=scope).get("content-type", "").lower()
        if "charset" in kind:  # among them are some in which a name is no Unicode, or takes minutes
            return 400, OTHER_CODING
        return None

    async def _stored(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whatever comes of it, no part stays: those that are whole have got another name."""
        parts: list[str] = []
        token = _parts.set(parts)
        try:
            await self._app(scope, self._bounded(receive), self._remembering(send))
        finally:
            _parts.reset(token)
            for part in parts:
                Path(part).unlink(missing_ok=True)

    def _large(self) -> str:
        """A sentence. Gradio makes "maximum allowed size" a 413, and a 400 of any other."""
        most = f"{self._most / 2**20:g} MiB"
        return f"The upload is larger than the maximum allowed size of {most}; save a shorter run, and load that."

    def _bounded(self, receive: Receive) -> Receive:
        """The upload as it comes. Gradio makes an answer of this error, and of no other."""
        came, over, deadline = 0, False, asyncio.get_running_loop().time() + UPLOAD_S

        async def read() -> Message:
            nonlocal came, over
            if over:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise MultiPartException(SLOW) from None
            came += len(message.get("body", b""))
            if came > self._most + BESIDE:
                raise MultiPartException(self._large())
            if message["type"] == "http.disconnect":
                raise MultiPartException("The upload broke off; load the file again.")
            over = not message.get("more_body", False)
            return message

        return read

    def _remembering(self, send: Send) -> Send:
        """Passes the answer on, which lists the paths of what was stored, and removes the oldest files."""
        answer = bytearray()

        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.body":
                answer.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    self._keep(bytes(answer))
            await send(message)

        return pass_on

    def _keep(self, answer: bytes) -> None:
        with suppress(ValueError):  # a refusal of Gradio's
            stored = json.loads(answer)
            for path in stored if isinstance(stored, list) else ():
                self._kept.pop(path, None)
                self._kept[path] = Path(path).stat().st_size if Path(path).exists() else 0
        while len(self._kept) > MAX_FILES or sum(self._kept.values()) > KEPT * self._most:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            Path(oldest).unlink(missing_ok=True)
