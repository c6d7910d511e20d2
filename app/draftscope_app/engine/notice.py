"""Wakes threads and coroutines that wait for something to change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress


class Notice:
    """Counts changes. A reader notes the count, reads, and then waits until the count is another one; so it misses no
    change between reading and waiting."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0
        self._sleepers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @property
    def count(self) -> int:
        return self._count

    def give(self) -> None:
        """Wakes everybody who waits. From any thread."""
        with self._condition:
            self._count += 1
            self._condition.notify_all()
            sleepers, self._sleepers = self._sleepers, {}
        for event, loop in sleepers.items():
            with suppress(RuntimeError):  # that event loop has been closed
                loop.call_soon_threadsafe(event.set)

    async def wait(self, seen: int, seconds: float | None = None) -> None:
        """Returns once the count is no longer `seen`, or after `seconds`."""
        event = asyncio.Event()
        with self._condition:
            if self._count != seen:
                return
            self._sleepers[event] = asyncio.get_running_loop()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), seconds)
        finally:
            with self._condition:
                self._sleepers.pop(event, None)

    def wait_until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Blocks this thread until `true()`, for at most `seconds`; returns what `true()` says then.

        `true` is called under this notice's lock, so it must take no other.
        """
        with self._condition:
            return self._condition.wait_for(true, seconds)
