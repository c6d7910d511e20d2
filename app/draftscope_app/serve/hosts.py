"""Which names this server may be called by, where visitors may load models from its disk.

A page of any site can be made to resolve to 127.0.0.1 (DNS rebinding), and its scripts then speak to a server on the
reader's own machine as if it were that site's. The request still carries that site's name: in `Host`, and in `Origin`.
Starlette's `TrustedHostMiddleware` takes a list of names; here every address in digits is good too, since no name has
to be resolved to reach it, and `Origin` is looked at as well.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from draftscope.base.errors import quoted

VARIABLE = "DRAFTSCOPE_ALLOWED_HOSTS"


def known_names(host: str, root_path: str, allowed: str) -> frozenset[str]:
    """Names of this machine, of the proxy that serves the page, and those that the environment adds."""
    own = socket.gethostname()
    others = [name.strip() for name in allowed.split(",")]
    names = ["localhost", host, own, f"{own}.local", urlsplit(root_path).hostname or "", *others]
    return frozenset(name.lower().rstrip(".") for name in names if name)


class OwnNames:
    """Refuses requests for another name, and those that a page of another site sends."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app, self._names = app, frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            if refusal := self.refusal(headers.get("host", ""), headers.get("origin")):
                await PlainTextResponse(refusal, status_code=403)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def refusal(self, host: str, origin: str | None) -> str:
        """Why a request is refused; empty if it is not. `origin` is absent where no page of a browser asks."""
        name = _name(f"//{host}")
        if name not in self._names and not _is_address(name):
            return (
                f"This server is not known as '{quoted(name)}'. It lets visitors load models from its disk, so it "
                f"answers to its own names only; start it with {VARIABLE}={quoted(name) or 'NAME'} if that is one."
            )
        if origin is not None and urlsplit(origin).netloc != host and _name(origin) not in self._names - {"localhost"}:
            return f"A page of {quoted(origin)} may not speak to this server; open http://{quoted(host)} itself."
        return ""


def _name(url: str) -> str:
    """The host of an address, without a port; empty where there is none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:  # half a bracket
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
