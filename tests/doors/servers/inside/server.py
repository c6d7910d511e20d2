"""A vLLM on loopback that writes and records made-up rounds, with the routes of draftscope-vllm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from draftscope.servers.inside.recording import RecordedRound
from tests.doors.servers.inside.made_up import Fault, recording
from tests.doors.servers.stubs import Habits, stub

ROUTE = "/v1/draftscope/rounds"


@dataclass
class Recorded:
    """What the server has: the rounds of one request, which it writes and records by the first that asks."""

    temperature: float = 1.0
    fault: Fault = "none"
    lost: int | None = None  # number of a round that the recorder has lost
    request: str = ""
    rounds: list[RecordedRound] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    def write(self, prompt: list[int], count: int, temperature: float, seed: int | None) -> list[int]:
        self.rounds = recording(4, count, self.fault, temperature)
        self.written = [token for each in self.rounds for token in each.written][:count]
        return self.written

    def answer(self, query: str) -> dict[str, Any]:
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        wanted, after = asked.get("request", ""), int(asked.get("after", -1))
        known = [each for each in self.rounds if each.number != self.lost]
        return {
            "on": True, "why": "", "lost": int(self.lost is not None), "requests": [] if wanted else ["made-up"],
            "rounds": [json.loads(each.model_dump_json()) for each in known if wanted and each.number > after],
        }  # fmt: skip


@contextmanager
def recorded_by(temperature: float = 1.0, lost: int | None = None) -> Iterator[tuple[str, Recorded]]:
    """URL and what the server recorded."""
    held = Recorded(temperature, lost=lost)
    with stub(Habits(burst=2, write=held.write, routes={ROUTE: held.answer})) as url:
        yield url, held
