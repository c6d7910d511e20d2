"""The engine's process stopped, so that it does not answer, and killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import httpx

from tests.programs.attacks import visitor
from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server

STOPPED_S, READY_AGAIN_S, KILLS = 20.0, 300.0, 3


def stopped(server: Server) -> Outcome:
    """/readyz must say so within the time that it is stopped, and be ready again afterwards."""
    engine = server.engine
    os.kill(engine, signal.SIGSTOP)
    statuses = []
    try:
        until = time.monotonic() + STOPPED_S
        while time.monotonic() < until and 503 not in statuses:
            statuses.append(httpx.get(f"{server.url}/readyz", timeout=30).status_code)
            time.sleep(0.5)
    finally:
        os.kill(engine, signal.SIGCONT)
    ready = server.ready(READY_AGAIN_S)
    found = "/readyz said so" if 503 in statuses else "/readyz said ready all the time"
    return Outcome(f"the engine's process stopped for {STOPPED_S:.0f} s", 503 in statuses and ready, found)


def killed(server: Server) -> Outcome:
    """A run must be decoded after each."""
    decoded = 0
    for _ in range(KILLS):
        if engine := server.engine:
            os.kill(engine, signal.SIGKILL)
        time.sleep(1)
        if server.ready(READY_AGAIN_S):
            decoded += asyncio.run(_decoded(server))
    return Outcome(
        f"kill -9 of the engine, {KILLS} times", decoded == KILLS, f"{decoded} of {KILLS} runs decoded after it"
    )


async def _decoded(server: Server) -> bool:
    async with visitor.client(server.url) as client:
        events = visitor.Visitor(client, server.config(), max_new_tokens=8, drafter="plain").events()
        return any([event["kind"] == "run_end" async for event in events])
