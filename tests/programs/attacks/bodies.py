"""Large bodies, with a length and in chunks, and small ones of many values, to every route that reads one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import httpx

from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server

ROUTES = ("queue/join", "component_server", "call/decode", "run/decode", "call/v2/decode", "cancel", "reset")
MIB = 2**20
LISTS, FLAT = 48, 400  # MiB
HEAD, TAIL = b'{"session_hash": "a", "fn_index": 1, "fn_name": "lesson", "component_id": 1, "data": [', b"0]}"


def attack(server: Server) -> Outcome:
    answers: Counter[int] = Counter()
    lists = HEAD + b"[]," * (LISTS * MIB // 3) + TAIL
    small = [HEAD + b"[]," * 340_000 + TAIL, HEAD + b"[" * 400_000 + b"]" * 400_000 + b"," + TAIL]
    with httpx.Client(base_url=server.url, timeout=120, limits=httpx.Limits(max_keepalive_connections=0)) as client:
        for route in ROUTES:
            sent: list[bytes | Iterator[bytes]] = [lists, _chunks(lists), *small, _flat()]
            for body in sent:
                answers[_sent(client, route, body)] += 1
    told = ", ".join(f"{count} x {status or 'cut off'}" for status, count in sorted(answers.items()))
    sizes = f"{LISTS} MiB of lists, whole and in chunks, {FLAT} MiB flat, 1 MiB of many and deep lists"
    return Outcome(f"{answers.total()} bodies: {sizes}", set(answers) <= {0, 413}, told)


def _sent(client: httpx.Client, route: str, body: bytes | Iterator[bytes]) -> int:
    """The answer's status; 0 where the connection was cut off."""
    try:
        headers = {"content-type": "application/json"}
        return client.post(f"/gradio_api/{route}", content=body, headers=headers).status_code
    except httpx.TransportError:
        return 0


def _chunks(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), MIB):
        yield body[start : start + MIB]


def _flat() -> Iterator[bytes]:
    yield from [b"x" * MIB] * FLAT
