"""What a room's pages hear: its state, again after each change, as server-sent events.

A state is whole, so who joins late, reloads or was away is where the class is. Answers are counted together for a
moment before they are sent; a turned page is sent at once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from draftscope_app.doors.learn.classroom.room import Room

PRESENTER_S, PHONE_S = 0.25, 2.0  # in which answers are counted together


async def follow(room: Room, state: Callable[[], dict[str, Any]], period: float) -> AsyncIterator[str]:
    """The events of one page, until the room ends."""
    last = ""
    while True:
        wait, ends = room.bell.listen(), room.phase == "end"
        text = json.dumps(state(), ensure_ascii=False, separators=(",", ":"))
        if text != last:
            yield f"data: {text}\n\n"
            last = text
        if ends:
            return
        try:
            await wait(period)
        except TimeoutError:
            yield "event: here\ndata: \n\n"
