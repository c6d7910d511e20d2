"""A server of classes alone, on loopback or without a network: no models and no page."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette

from draftscope_app.doors.learn.classroom.class_routes import Classroom
from draftscope_app.doors.learn.classroom.rooms import Rooms


@contextmanager
def served_class(rooms: Rooms | None = None, port: int = 0, verifier: Any = None, network: str = "") -> Iterator[str]:
    """Its address. A second one at the same `port` is the first after a broken network, or without its `rooms` a
    restarted one."""
    app = Starlette(routes=Classroom(rooms or Rooms(400, 300), network, verifier=verifier).routes())
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


def client(classroom: Classroom, address: str) -> httpx.AsyncClient:
    """Somebody at this address, without a network."""
    transport = httpx.ASGITransport(Starlette(routes=classroom.routes()), client=(address, 9))
    return httpx.AsyncClient(transport=transport, base_url="http://class")


async def states(client: httpx.AsyncClient, path: str) -> AsyncIterator[dict[str, Any]]:
    """What a page hears, state by state."""
    async with client.stream("GET", path) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))
