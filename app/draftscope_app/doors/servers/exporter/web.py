"""The exporter as a server: one page, which is made at most once a second, however often it is asked for.

Prometheus needs one connection. Whoever opens many keeps nobody else out: each address has a few, heads have a time.
"""

from __future__ import annotations

import time
from threading import Lock

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from draftscope_app.doors.servers.exporter import prometheus_text
from draftscope_app.doors.servers.exporter.count_sources import Source
from draftscope_app.serve.connections import BoundedConnection

KEPT_S = 1.0  # that a page is given again
TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Pages:
    """The newest page. Safe to use from several threads: they wait for the one that makes it."""

    def __init__(self, source: Source, plain_ms: float | None) -> None:
        self._source, self._plain_ms = source, plain_ms
        self._lock, self._made, self._page = Lock(), float("-inf"), b""

    def newest(self) -> bytes:
        with self._lock:
            if time.monotonic() - self._made >= KEPT_S:
                self._page = prometheus_text.page(self._source.read(), self._plain_ms)
                self._made = time.monotonic()
            return self._page


def application(source: Source, plain_ms: float | None) -> Starlette:
    """`GET /metrics`. It is answered in a thread, since the log or the server may be slow."""
    pages = Pages(source, plain_ms)

    def answer(_: Request) -> Response:
        return Response(pages.newest(), media_type=TEXT)

    served = Starlette(routes=[Route("/metrics", answer)])
    served.router.redirect_slashes = False  # a redirect would say back whatever a request calls this host
    return served


class FewConnections(BoundedConnection):
    """One of them."""

    max_open, max_address = 64, 16


def server(source: Source, host: str, port: int, plain_ms: float | None) -> uvicorn.Server:
    """The server, not yet running."""
    return uvicorn.Server(
        uvicorn.Config(
            application(source, plain_ms), host=host, port=port, http=FewConnections, ws="none", lifespan="off",
            log_level="critical", server_header=False,
        )
    )  # fmt: skip
