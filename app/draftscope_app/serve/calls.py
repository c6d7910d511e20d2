"""Calls of `decode` over plain HTTP: settings at the end of `data` may be left out, and mistakes are one sentence.

Gradio wants every input, and answers `{"error": null}` if one is missing; its own clients fill in the defaults before
they call. Here the server does, for `POST .../call/decode` and `.../run/decode`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from draftscope.base.errors import DraftscopeError
from draftscope_app.serve.bodies import replayed

PATHS = ("/call/decode", "/run/decode", "/api/decode")
EXAMPLE = '{"data": ["Once upon a time"]}'


class FilledIn:
    """Hands such a call on with `defaults` for the values that are left out. The first value is the prompt."""

    def __init__(self, app: ASGIApp, defaults: Sequence[Any]) -> None:
        self._app, self._defaults = app, list(defaults)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        called = scope["type"] == "http" and scope["method"] == "POST"
        if not called or not scope["path"].rstrip("/").endswith(PATHS):
            await self._app(scope, receive, send)
            return
        try:
            body = json.dumps(self.filled(await Request(scope, receive).body())).encode()
        except DraftscopeError as error:
            await JSONResponse({"error": str(error)}, status_code=400)(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
        length = (b"content-length", str(len(body)).encode())
        await self._app({**scope, "headers": [*headers, length]}, replayed(body, receive), send)

    def filled(self, body: bytes) -> dict[str, Any]:
        """The call with all of its values. Raises `DraftscopeError` if the body is not a call."""
        try:
            call = json.loads(body)
        except (ValueError, RecursionError):
            raise DraftscopeError(f"The call is not JSON; send one such as {EXAMPLE}.") from None
        values = call.get("data") if isinstance(call, dict) else None
        if not isinstance(values, list) or not values:
            raise DraftscopeError(
                f"The call has no list 'data' that begins with the prompt; send one such as {EXAMPLE}."
            )
        if len(values) > 1 + len(self._defaults):
            raise DraftscopeError(
                f"'data' has {len(values)} values, and decode takes at most {1 + len(self._defaults)}."
            )
        filled: dict[str, Any] = call | {"data": [*values, *self._defaults[len(values) - 1 :]]}
        return filled
