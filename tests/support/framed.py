"""A page as a Space's visitor meets it: behind a proxy that strips a prefix, in an iframe of another origin.

The outer page is served under `localhost`, the frame under `127.0.0.1`: other origins, other sites.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

PREFIX = "/behind/a/proxy"
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade"}
OUTER = """<!doctype html><title>outer</title><link rel="icon" href="data:,"><body style="margin: 0">
<script>window.told = []; addEventListener("message", (event) => told.push(event.data));</script>
<iframe title="Space" style="width: 1400px; height: 1600px; border: 0"
  src="http://127.0.0.1:{port}{prefix}/?{query}"></iframe>"""


RANGE = range(10_000, 30_000)  # below the ports that a system gives to whoever connects
PORTS = islice(cycle(RANGE), os.getpid() * 101 % len(RANGE), None)  # other processes begin elsewhere


def free_port() -> int:
    """One where nobody listens, and which nobody else is given before a server of the test takes it."""
    for port in PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("the ports never end")


def application(port: int, upstream: str) -> Starlette:
    """The outer page, and everything under the prefix as `upstream` answers it without the prefix."""
    client = httpx.AsyncClient(base_url=upstream, timeout=None, limits=httpx.Limits())  # as many as the pages need

    async def outer(request: Request) -> Response:
        return HTMLResponse(OUTER.format(port=port, prefix=PREFIX, query=request.url.query.replace("&", "&amp;")))

    async def passed_on(request: Request) -> Response:
        url = httpx.URL(path=request.path_params["path"], query=request.url.query.encode())
        headers = [(name, value) for name, value in request.headers.raw if name.decode() not in HOP_BY_HOP]
        asked = client.build_request(request.method, url, headers=headers, content=await request.body())
        answer = await client.send(asked, stream=True)

        async def body() -> AsyncIterator[bytes]:
            try:
                async for part in answer.aiter_raw():
                    yield part
            finally:
                await answer.aclose()

        kept = {name: value for name, value in answer.headers.items() if name not in HOP_BY_HOP}
        return StreamingResponse(body(), answer.status_code, kept)

    methods = ["GET", "POST", "HEAD", "DELETE", "OPTIONS"]
    return Starlette(routes=[Route("/", outer), Route(PREFIX + "{path:path}", passed_on, methods=methods)])


@contextmanager
def framed(upstream: str) -> Iterator[int]:
    """The proxy in front of a server, in a process of its own; yields its port."""
    port = free_port()
    command = [sys.executable, "-m", "tests.support.framed", str(port), upstream]
    process = subprocess.Popen(command, cwd=Path(__file__).resolve().parents[2])
    try:
        while not _listens(port):
            assert process.poll() is None
            time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait(10)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    own_port, server = int(sys.argv[1]), sys.argv[2]
    uvicorn.run(application(own_port, server), host="127.0.0.1", port=own_port, log_level="critical")
