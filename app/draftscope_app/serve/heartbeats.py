"""An open page holds no connection while nothing happens on it.

A browser opens six connections to an address (HTTP/1.1), for all of its tabs. Gradio's heartbeat, by which the server
notices that a page was left, took one of them in each tab: with six tabs none could run any more, and a seventh did not
load. Here a page says that it is left (assets/instrument/host/tab.js), and its heartbeat ends at once. Programs keep
theirs, for their calls end when they leave.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from draftscope_app.engine.free_memory import Trimmer
from draftscope_app.engine.visitors import Visitors

HEARTBEAT = "/gradio_api/heartbeat/"
BROWSERS = "Mozilla/"  # how the `User-Agent` of all of them begins


class NoHeartbeats:
    """Answers a browser's heartbeat with the end of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        beats = scope["type"] == "http" and HEARTBEAT in scope["path"]
        ends = beats and Headers(scope=scope).get("user-agent", "").startswith(BROWSERS)
        await (Response(media_type="text/event-stream") if ends else self._app)(scope, receive, send)


def routes(visitors: Visitors) -> list[Route]:
    """`/left`, to which a page posts the token of its tab when it is closed, reloaded or left."""
    trimmer = Trimmer()

    async def left(request: Request) -> Response:
        visitors.left_tab((await request.body()).decode("ascii", "replace"))
        trimmer.trim()
        return Response(status_code=204)

    return [Route("/left", left, methods=["POST"])]
