"""How large a request may be, and what: looked at before anything reads it, and while it comes. Uploads: uploads.py.

Gradio, FastAPI and the API read a whole body and parse it where all other requests wait, whatever its header calls it.
48 MiB of empty lists silenced a server for 4 to 12 s, and 1 MiB of them for 2 s; so values are counted too.
"""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from draftscope.base.errors import DraftscopeError
from draftscope_app.serve.strict_json import refuse_loose

UPLOAD = "/gradio_api/upload"
LEAST = 2**20  # bytes that every server takes
BYTES_A_CHARACTER = 16  # of a visitor's text: JSON takes up to 12, and there is more in a request
MAX_VALUES = 10_000  # of JSON; the page sends about a hundred, and Gradio takes 10 ms for so many
MAX_DEPTH = 50  # of lists in lists
BODY_S = 30.0  # within which a body must have come
MAX_COMING = 64 * 2**20  # bytes of all bodies that have not come whole
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
BUSY = "Too much is being sent to this server at once; send it again in a moment."
CUT_OFF = "A request must have come within {:.0f} s, and this one had not; send it again."


class BoundedBodies:
    """Refuses a body that is too large, with one sentence, and hands every other one on as a whole."""

    def __init__(self, app: ASGIApp, max_text: int) -> None:
        self._app, self._max_text = app, max_text
        self._most = max(LEAST, BYTES_A_CHARACTER * max_text)
        self._coming = 0  # bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not has_body(scope) or is_upload(scope):
            await self._app(scope, receive, send)
            return
        try:
            body = await self._whole(scope, receive)
        except RefusedError as refused:
            await JSONResponse({"error": refused.sentence}, refused.status)(scope, receive, send)
            return
        await self._app(scope, replayed(body, receive), send)

    async def _whole(self, scope: Scope, receive: Receive) -> bytes:
        """The body. Raises `RefusedError`, for its length before anything of it is read."""
        body = bytearray()
        self._refuse_long(stated_length(scope))
        try:
            async with asyncio.timeout(BODY_S):
                more = True
                while more:
                    message = await receive()
                    body += message.get("body", b"")
                    self._coming += len(message.get("body", b""))
                    self._refuse_long(len(body))
                    more = message["type"] == "http.request" and message.get("more_body", False)
        except TimeoutError:
            raise RefusedError(408, CUT_OFF.format(BODY_S)) from None
        finally:
            self._coming -= len(body)
        refuse_many(body)
        try:
            refuse_loose(body)
        except DraftscopeError as error:
            raise RefusedError(400, str(error)) from None
        return bytes(body)

    def _refuse_long(self, length: int) -> None:
        if length > self._most:
            raise RefusedError(
                413,
                f"The request is larger than {self._most / 2**20:g} MiB, and this server reads no more of one; "
                f"shorten its texts, which may have {self._max_text:,} characters each.",
            )
        if self._coming > MAX_COMING:
            raise RefusedError(503, BUSY)


class RefusedError(Exception):
    """A request that is not read: the status of the answer, and its sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def has_body(scope: Scope) -> bool:
    return scope["type"] == "http" and any(n in (b"content-length", b"transfer-encoding") for n, _ in scope["headers"])


def is_upload(scope: Scope) -> bool:
    """Of this path alone: a longer one that ends like it may lead to somebody who reads JSON."""
    path = scope["path"].removeprefix(scope.get("root_path", "")) if has_body(scope) else ""
    return path.rstrip("/") == UPLOAD


def stated_length(scope: Scope) -> int:
    """The length that the request states, in bytes; 0 without one, and for a body that comes in chunks."""
    stated = Headers(scope=scope).get("content-length", "")
    return int(stated) if stated.isdecimal() else 0


def refuse_many(body: bytes | bytearray) -> None:
    """Raises `RefusedError` for JSON of too many values, or too deep. Texts are cut out at their quotation marks: that
    takes 10 ms at most, and the marks that are left are those of JSON."""
    if _marks(body) > MAX_DEPTH:
        unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
        body = b"".join(unescaped.split(b'"')[::2])
    if _marks(body) > MAX_VALUES:
        raise RefusedError(
            413, f"The request has more than {MAX_VALUES:,} values, and this server reads no more of one."
        )
    depth = deepest = 0
    for bracket in body.translate(None, NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise RefusedError(413, f"The request nests its values more than {MAX_DEPTH} deep; send flatter ones.")


def _marks(body: bytes | bytearray) -> int:
    """No fewer than the values of JSON: what separates and what opens them."""
    return sum(body.count(mark) for mark in (b",", b"[", b"{"))


def replayed(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, then whatever else comes."""
    sent: list[bool] = []

    async def read() -> Message:
        if sent:
            return await receive()
        sent.append(True)
        return {"type": "http.request", "body": body, "more_body": False}

    return read
