"""The page's document as it is sent: small, and painted before Gradio's script has loaded.

Gradio puts what is given it for the head into its own configuration, and adds it when its script has run; it
compresses only files whose names have an extension. Here the instrument is a file of its own, which browsers keep, the
document begins with a first picture, and both are compressed.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from urllib.parse import parse_qs

import brotli
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FOR_EVER = "public, max-age=31536000, immutable"  # its name changes with its content
GRADIO = b"<gradio-app"  # in the page's document, in no other
KEPT = 8  # compressed documents: with each first picture, for each name of the server
QUALITY = 9  # of brotli: a fiftieth of a second for a document, which is kept


@dataclass(frozen=True)
class Script:
    """The instrument as a file."""

    text: str

    @cached_property
    def name(self) -> str:
        return f"instrument-{hashlib.sha256(self.text.encode()).hexdigest()[:16]}.js"

    def route(self) -> Route:
        async def answer(request: Request) -> Response:
            body, headers = await packed_as(request.headers, self.text.encode())
            return Response(body, media_type="text/javascript", headers=headers | {"Cache-Control": FOR_EVER})

        return Route(f"/{self.name}", answer)


# In each frame Gradio counts the seconds for which something loads; those of the page itself until the page is closed.
# Nobody sees them here, and a page at rest would draw sixty times a second.
UNCOUNTED = """<script>{
const frame = requestAnimationFrame, counts = /performance\\.now\\(\\)-.*1e3\\)/;
requestAnimationFrame = (act) => (counts.test(act) ? 0 : frame(act));
}</script>"""


class Documents:
    """Answers that are HTML come compressed; the page's own with the `script` in its head and, on its first door, the
    `picture` that the script takes away."""

    def __init__(self, app: ASGIApp, script: Script, picture: str) -> None:
        self._app, self._picture = app, picture.encode()
        self._head = f'{UNCOUNTED}<script defer src="{script.name}"></script>'.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        held: Message | None = None
        parts: list[bytes] = []

        async def pass_on(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_document(Headers(raw=message["headers"])):
                held = message
            elif held is None or message["type"] != "http.response.body":
                await send(message)
            else:
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    await self._send(scope, held, b"".join(parts), send)

        await self._app(scope, receive, pass_on)

    async def _send(self, scope: Scope, start: Message, body: bytes, send: Send) -> None:
        whole = self._filled(body, parse_qs(scope["query_string"].decode("latin-1")))
        packed, more = await packed_as(Headers(scope=scope), whole)
        headers = MutableHeaders(raw=start["headers"])
        headers.update(more)
        headers["Content-Length"] = str(len(packed))
        await send(start)
        await send({"type": "http.response.body", "body": packed})

    def _filled(self, body: bytes, query: dict[str, list[str]]) -> bytes:
        """What Gradio writes as data holds no `<`: the first ends of head and body's beginning are the document's."""
        head, head_end, rest = body.partition(b"</head>")
        if GRADIO not in rest:
            return body
        begin, element, content = rest.partition(GRADIO)
        picture = b"" if query else self._picture  # an address says what else is shown
        return b"".join((head, self._head, head_end, begin, picture, element, content))


def _is_document(headers: Headers) -> bool:
    return headers.get("content-type", "").startswith("text/html") and "content-encoding" not in headers


async def packed_as(headers: Headers, body: bytes) -> tuple[bytes, dict[str, str]]:
    """The body in the best encoding that a request's `headers` accept, and the headers that say so. Compressed in a
    thread: others are answered meanwhile."""
    accepted = {part.partition(";")[0].strip() for part in headers.get("accept-encoding", "").split(",")}
    name = next((name for name in ("br", "gzip") if name in accepted), None)
    if name is None:
        return body, {"Vary": "Accept-Encoding"}
    return await run_in_threadpool(compressed, body, name), {"Content-Encoding": name, "Vary": "Accept-Encoding"}


@lru_cache(KEPT)
def compressed(body: bytes, name: str) -> bytes:
    """The body by brotli (`br`) or `gzip`."""
    if name == "br":
        return bytes(brotli.compress(body, mode=brotli.MODE_TEXT, quality=QUALITY))
    return gzip.compress(body, mtime=0)
