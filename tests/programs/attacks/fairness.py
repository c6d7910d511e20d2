"""80 calls of one client beside another's four tokens."""

from __future__ import annotations

import asyncio
import time

import httpx

from tests.programs.attacks import visitor
from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server

CALLS, TOKENS, FEW, MAX_S = 80, 64, 4, 5.0


def attack(server: Server) -> Outcome:
    waited, refused = asyncio.run(_beside(server))
    tried = f"{CALLS} calls of {TOKENS} tokens beside another visitor's {FEW} tokens"
    return Outcome(tried, waited < MAX_S, f"the {FEW} tokens came after {waited:.1f} s; {refused} calls were refused")


async def _beside(server: Server) -> tuple[float, int]:
    """Seconds until the few tokens were there, and how many of the calls were refused."""
    config = server.config()
    async with visitor.client(server.url) as client:
        calls = [asyncio.create_task(_call(client)) for _ in range(CALLS)]
        await asyncio.sleep(2)
        began = time.monotonic()
        run = visitor.Visitor(client, config, max_new_tokens=FEW, drafter="plain").events()
        async for event in run:
            if event["kind"] == "run_end":
                break
        waited = time.monotonic() - began
        await run.aclose()  # type: ignore[attr-defined]
        return waited, sum(await asyncio.gather(*calls))


async def _call(client: httpx.AsyncClient) -> bool:
    """A call of `decode` to its end; whether it was refused."""
    settings = {"data": ["Once upon a time", "plain", 0.0, 0, 1.0, 0.0, 0, TOKENS]}
    event = (await client.post("/gradio_api/call/decode", json=settings)).json()["event_id"]
    answer = await client.get(f"/gradio_api/call/decode/{event}")
    return "event: error" in answer.text
