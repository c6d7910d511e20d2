"""What a room's pages hear: its state, again after each change, as server-sent events.

A state is whole, so who joins late, reloads or was away is where the class is. Answers are counted together for a
moment before they are sent; a turned page is sent at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from draftscope_app.doors.learn.classroom.rooms import Room

PRESENTER_S, PHONE_S = 0.25, 2.0  # in which answers are counted together
KEEP_ALIVE_S = 15.0  # proxies cut what is silent for longer; pages notice after 40 s (base/room.js)


class Bell:
    """Wakes the streams of one room."""

    def __init__(self) -> None:
        self._turned, self._counted = asyncio.Event(), asyncio.Event()

    def turn(self) -> None:
        """Everybody sees something new."""
        self._turned.set()
        self.count()
        self._turned = asyncio.Event()

    def count(self) -> None:
        """Somebody answered, came or left."""
        self._counted.set()
        self._counted = asyncio.Event()

    async def wait(self, period: float) -> None:
        """Until a page is turned, or `period` seconds after somebody answered. `TimeoutError` after a silence."""
        turned = self._turned
        await asyncio.wait_for(self._counted.wait(), KEEP_ALIVE_S)
        with suppress(TimeoutError):
            await asyncio.wait_for(turned.wait(), period)


async def follow(room: Room, bell: Bell, state: Callable[[], dict[str, Any]], period: float) -> AsyncIterator[str]:
    """The events of one page, until the room ends."""
    last = ""
    while True:
        text = json.dumps(state(), ensure_ascii=False, separators=(",", ":"))
        if text != last:
            yield f"data: {text}\n\n"
            last = text
        if room.phase == "end":
            return
        try:
            await bell.wait(period)
        except TimeoutError:
            yield "event: here\ndata: \n\n"
