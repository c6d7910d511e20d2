"""Requests that nobody should be heard with: of other origins, with too few inputs, and those that never end."""

from __future__ import annotations

import asyncio
import socket
import time

import httpx

from tests.programs.attacks import visitor
from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server

SECRET = "a-text-of-a-visitor"
WRITERS, READERS, WATCHED_S = 200, 20, 20.0


def origins(server: Server) -> Outcome:
    """Pages of other sites and ports ask for other models."""
    own = server.url
    pages = (
        "http://evil.example",
        "http://127.0.0.1:9999",
        "http://localhost:9999",
        own.replace("http", "https"),
        "null",
    )
    heads = [{"Origin": page} for page in pages] + [{"Host": "evil.example"}]
    statuses = [httpx.post(f"{own}/gradio_api/queue/join", json={}, headers=head).status_code for head in heads]
    return Outcome(f"{len(heads)} other origins and names", set(statuses) == {403}, f"{statuses.count(403)} refused")


def few_inputs(server: Server) -> Outcome:
    """Every listener is called with one input; nothing of it may be logged."""
    calls = [d["id"] for d in server.config()["dependencies"]]
    with httpx.Client(base_url=server.url, timeout=60, limits=httpx.Limits(max_keepalive_connections=0)) as client:
        for number in calls:
            call = {"data": [SECRET * 1000], "fn_index": number, "session_hash": SECRET}
            client.post("/gradio_api/run/predict", json=call)
            client.post("/gradio_api/queue/join", json=call)
    time.sleep(2)
    logged = server.log.read_text()
    found = f"the log has {len(logged) / 1024:.0f} KiB, the text {logged.count(SECRET)} times"
    return Outcome(f"{2 * len(calls)} calls with too few inputs", SECRET not in logged, found)


def slow(server: Server) -> Outcome:
    """Some send a body byte by byte, some press Run and never read; another visitor's run must be decoded meanwhile."""
    head = f"POST /gradio_api/queue/join HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 900000\r\n\r\n"
    lines = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(WRITERS)]
    for line in lines:
        line.sendall(head.encode())
    decoded = asyncio.run(_among_readers(server, lines))
    for line in lines:
        line.close()
    found = "decoded" if decoded else "not decoded"
    return Outcome(
        f"{WRITERS} slow senders and {READERS} who never read", decoded, f"another visitor's run was {found}"
    )


async def _among_readers(server: Server, lines: list[socket.socket]) -> bool:
    config = server.config()
    async with visitor.client(server.url) as client:
        for _ in range(READERS):
            one = visitor.Visitor(client, config, max_new_tokens=64)
            await one.press_run()
            line = socket.create_connection(("127.0.0.1", server.port))
            path = f"/gradio_api/queue/data?session_hash={one.session}"
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
            lines.append(line)
        until = time.monotonic() + WATCHED_S
        while time.monotonic() < until:
            for line in lines[:WRITERS]:
                line.send(b"x")
            await asyncio.sleep(1)
        events = visitor.Visitor(client, config, max_new_tokens=8, drafter="plain").events()
        return any([event["kind"] == "run_end" async for event in events])
