"""The two pages of a class and their files, which lie in screens/. Their modules import from the instrument's rooms as
if that folder stood beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from draftscope.base.assets import assets
from draftscope.trace.html import css_variables, palette, root_colours

SCREENS = Path(__file__).with_name("screens")
FILES = (
    "screens/phone.js",
    "screens/projector.js",
    "screens/drawing.js",
    "screens/desk.js",
    "screens/room.js",
    "base/order.js",
    "vendor/lit-html.js",
)
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'"


def page(name: str) -> Callable[[Request], Awaitable[Response]]:
    """The handler of one page."""

    async def answer(_: Request) -> Response:
        headers = {"content-security-policy": POLICY, "cache-control": "no-cache", "referrer-policy": "no-referrer"}
        return FileResponse(SCREENS / name, headers=headers)

    return answer


async def file(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "style.css":
        return Response(_style(), media_type="text/css")
    if name not in FILES:
        return PlainTextResponse("There is no such file.", 404)
    folder = SCREENS.parent if name.startswith(f"{SCREENS.name}/") else assets() / "instrument"
    return FileResponse(folder / name, media_type="text/javascript")


@cache
def _style() -> str:
    """The classroom's style sheet after the colours of both palettes, chosen by the device."""
    dark = css_variables(palette()["dark"])
    css = (SCREENS / "style.css").read_text(encoding="utf-8")
    return f"{root_colours()}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{css}"
