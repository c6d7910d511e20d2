"""Which names and pages may speak to this server, where visitors may load models from its disk.

A page of any site can be made to resolve to 127.0.0.1 (DNS rebinding), and its scripts then speak to a server on the
reader's own machine as if it were that site's. The request still carries that site's name: in `Host`, and in `Origin`.
Starlette's `TrustedHostMiddleware` takes a list of names; here every address in digits is good too, since no name has
to be resolved to reach it. A page may ask if its `Origin`, which is scheme, host and port, is the address that it asks:
another port of this machine is another program's page. A proxy's page has the proxy's name.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from draftscope.base.errors import quoted
from draftscope_app.serve.network import is_ip

VARIABLE = "DRAFTSCOPE_ALLOWED_HOSTS"
PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Where a page comes from."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True)
class Names:
    """`hosts` may stand in `Host`; `origins` belong to a proxy, whose pages may ask whatever `Host` it passes on."""

    hosts: frozenset[str]
    origins: frozenset[Origin]


def known_names(host: str, root_path: str, allowed: str) -> Names:
    """Names of this machine, of the proxy that serves the page, and those that the environment adds, which may have a
    port: a proxy's page may come from it, else from the usual ones."""
    hostname = socket.gethostname()
    others = [name.strip() for name in allowed.split(",") if name.strip()]
    proxy = origin_of(root_path)
    here = (host, hostname, f"{hostname}.local")
    names = ["localhost", *here, proxy.host if proxy else "", *(_name(f"//{o}") for o in others)]
    added = [origin_of(f"{scheme}://{other}") for scheme in PORTS for other in others]
    return Names(
        frozenset(name.lower().rstrip(".") for name in names if name),
        frozenset(origin for origin in (proxy, *added) if origin is not None),
    )


class OwnNames:
    """Refuses requests for another name, and those that a page of another site, or of another port, sends."""

    def __init__(self, app: ASGIApp, names: Names) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            address = f"{scope['scheme'].replace('ws', 'http')}://{headers.get('host', '')}"
            if refusal := self.refusal(address, headers.get("origin")):
                await PlainTextResponse(refusal, status_code=403)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def refusal(self, address: str, origin: str | None) -> str:
        """Why a request to this address is refused; empty if it is not. `origin` is absent where no page of a browser
        asks."""
        name = _name(address)
        if name not in self._names.hosts and not is_ip(name):
            return (
                f"This server is not known as '{quoted(name)}'. It lets visitors load models from its disk, so it "
                f"answers to its own names only; start it with {VARIABLE}={quoted(name) or 'NAME'} if that is one."
            )
        if origin is None:
            return ""
        asking = origin_of(origin)
        if asking is None or asking not in {origin_of(address), *self._names.origins}:
            return f"A page of {quoted(origin)} may not speak to this server; open {quoted(address)} itself."
        return ""


def origin_of(url: str) -> Origin | None:
    """Scheme, host and port of an address; None where it has none of them."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:  # half a bracket, or a port that is none
        return None
    return Origin(parts.scheme, _name(url), port) if parts.hostname and port else None


def _name(url: str) -> str:
    """The host of an address, without a port; empty where there is none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:  # half a bracket
        return ""
