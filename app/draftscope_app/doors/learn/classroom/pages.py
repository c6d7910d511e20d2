"""The two pages of a class and their files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from draftscope.base.assets import assets
from draftscope.trace.html import css_variables, palette, root_colours

FOLDER = assets() / "instrument" / "classroom"
FILES = (
    "classroom/phone.js",
    "classroom/projector.js",
    "classroom/drawing.js",
    "classroom/desk.js",
    "base/room.js",
    "vendor/lit-html.js",
)
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'"


def page(name: str) -> Callable[[Request], Awaitable[Response]]:
    """The handler of one page."""

    async def answer(_: Request) -> Response:
        headers = {"content-security-policy": POLICY, "cache-control": "no-cache", "referrer-policy": "no-referrer"}
        return FileResponse(FOLDER / name, headers=headers)

    return answer


async def file(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "style.css":
        return Response(_style(), media_type="text/css")
    if name not in FILES:
        return PlainTextResponse("There is no such file.", 404)
    return FileResponse(assets() / "instrument" / name, media_type="text/javascript")


@cache
def _style() -> str:
    """The classroom's style sheet after the colours of both palettes, chosen by the device."""
    dark = css_variables(palette()["dark"])
    css = (FOLDER / "style.css").read_text(encoding="utf-8")
    return f"{root_colours()}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{css}"
