"""Where the rounds are read: routes below /v1, so that vLLM's own API key guards them."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections.abc import AsyncIterator
from itertools import zip_longest
from typing import Any

from fastapi import FastAPI, HTTPException, Response
from fastapi.responses import StreamingResponse

ANSWERS_S, PAUSE_S, LONGEST_S = 30.0, 0.05, 600.0


def merged(answers: list[dict[str, Any]]) -> str:
    """What several engines answered (data parallel) as one. Each request is in one of them."""
    turns = zip_longest(*(reversed(answer["requests"]) for answer in answers))
    known = [answer["ended"] for answer in answers if answer["ended"] is not None]
    return json.dumps({
        "on": all(answer["on"] for answer in answers),
        "why": next((answer["why"] for answer in answers if answer["why"]), ""),
        "lost": sum(answer["lost"] for answer in answers),
        "requests": [name for turn in turns for name in turn if name is not None][::-1],
        "ended": all(known) if known else None,
        "rounds": [content for answer in answers for content in answer["rounds"]],
    })  # fmt: skip


class RoundRoutes:
    """The entry point `vllm.endpoint_plugins`."""

    name = "draftscope"
    required_tasks = None

    def __init__(self) -> None:
        self._client: Any = None

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:
        self._client = engine_client

    def attach_router(self, app: FastAPI) -> None:
        @app.get("/v1/draftscope/rounds")
        async def rounds(request: str = "", after: int = -1) -> Response:
            """The state of the recorder; with `request`, the rounds of requests whose id contains it."""
            return Response(await self._ask(request, after), media_type="application/json")

        @app.get("/v1/draftscope/stream")
        async def stream(request: str) -> StreamingResponse:
            """The same as server-sent events, a round each, as they are written."""
            return StreamingResponse(self._events(request), media_type="text/event-stream")

    async def _ask(self, request: str, after: int) -> str:
        if self._client is None:
            raise HTTPException(503, "draftscope: this server has no engine to record.")
        call = ("draftscope_rounds", ANSWERS_S, (request, after))
        engines: Any = getattr(self._client, "engine_core", None)
        if hasattr(engines, "call_utility_all_async"):  # else the first of several engines answers
            by_engine = await engines.call_utility_all_async("collective_rpc", *call, None)
            ranks = [answer for engine in by_engine for answer in engine]
        else:
            ranks = await self._client.collective_rpc(*call)
        answers = [answer for answer in ranks if answer is not None]
        if not answers:
            raise HTTPException(503, "draftscope: no rank records; the server's log says why.")
        return answers[0] if len(answers) == 1 else merged([json.loads(answer) for answer in answers])

    async def _events(self, request: str) -> AsyncIterator[str]:
        """Ends when all these requests have, when the recorder ends, after ten minutes, or when the client leaves."""
        after = -1
        for _ in range(int(LONGEST_S / PAUSE_S)):
            answer = json.loads(await self._ask(request, after))
            for content in answer["rounds"]:
                after = content["number"]
                yield f"data: {json.dumps(content)}\n\n"
            if answer["ended"] or not answer["on"]:
                return
            await asyncio.sleep(PAUSE_S)
