"""Where the rounds are read: routes below /v1, so that vLLM's own API key guards them."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, HTTPException, Response
from fastapi.responses import StreamingResponse

ANSWERS_S, PAUSE_S, LONGEST_S = 30.0, 0.05, 600.0


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
        answers = await self._client.collective_rpc("draftscope_rounds", ANSWERS_S, (request, after))
        for answer in answers:
            if answer is not None:
                return str(answer)
        raise HTTPException(503, "draftscope: no rank records; the server's log says why.")

    async def _events(self, request: str) -> AsyncIterator[str]:
        """Ends when the recorder ends, after ten minutes, or when the client leaves."""
        after = -1
        for _ in range(int(LONGEST_S / PAUSE_S)):
            answer = json.loads(await self._ask(request, after))
            for content in answer["rounds"]:
                after = content["number"]
                yield f"data: {json.dumps(content)}\n\n"
            if not answer["on"]:
                return
            await asyncio.sleep(PAUSE_S)
