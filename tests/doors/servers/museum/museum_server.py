"""A server on loopback that verifies as an exhibit does: `museum_server PORT wrong` or `mended`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Event

from draftscope import load
from draftscope.servers.adapter import Request
from draftscope.servers.museum.exhibits import EXHIBITS
from draftscope.servers.museum.server import Kept, MuseumServer
from tests.doors.servers.stubs import Habits, stub

TARGET = cache(lambda: (load("draft", dtype="float32", device="cpu", threads=1).target, Kept()))


@contextmanager
def serving(how: str, port: int = 0) -> Iterator[str]:
    """Its address, until the end of the block. All of a process have read what one has read."""
    verify, _ = EXHIBITS[0].wrong if how == "wrong" else EXHIBITS[0].mended
    target, kept = TARGET()
    server = MuseumServer(target, verify, gamma=3, kept=kept)

    def write(prompt: list[int], count: int, temperature: float, seed: int | None) -> list[int]:
        request = Request(tuple(prompt), count, seed=seed or 0, temperature=temperature)
        return [token for chunk in server.stream(request) for token in chunk.ids]

    with stub(Habits(write=write), port) as url:
        yield url


if __name__ == "__main__":
    with serving(sys.argv[2], int(sys.argv[1])) as address:
        print(address, flush=True)
        Event().wait()
