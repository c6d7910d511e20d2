"""What wakes the streams of a room when there is something new to say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

KEEP_ALIVE_S = 15.0  # proxies cut what is silent for longer; pages notice after 40 s (screens/room.js)


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

    def listen(self) -> Callable[[float], Awaitable[None]]:
        """Waits for what is new from now on, also if that comes before the wait: until a page is turned, or so many
        seconds after somebody answered. `TimeoutError` after a silence."""
        turned, counted = self._turned, self._counted

        async def wait(period: float) -> None:
            await asyncio.wait_for(counted.wait(), KEEP_ALIVE_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(turned.wait(), period)

        return wait
