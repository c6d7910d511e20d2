"""Runs in the engine process, as tests ask for them and watch them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from draftscope_app.engine.handle import RunHandle
from draftscope_app.engine.messages import NOBODY, Asker, Entered, Happened, Job, Noted, Refused
from draftscope_app.engine.sessions import new_run_id

PATIENCE_S = 120.0


def job(
    tokens: int = 12,
    steps: int | None = None,
    solo: int = 0,
    prompt: str = "abc",
    asker: Asker = NOBODY,
    **settings: Any,
) -> Job:
    common = {"max_new_tokens": tokens, "temperature": 1.0}
    lanes = (
        ("plain", common | {"drafter": "plain"}),
        ("speculative", common | {"drafter": "draft", "gamma": 3} | settings),
    )
    return Job(new_run_id(), prompt, lanes, steps, solo, asker=asker)


class Seen:
    """Everything a handle has said so far."""

    def __init__(self, handle: RunHandle) -> None:
        self.handle = handle
        self.events: list[dict[str, Any]] = []
        self.states: list[str] = []
        self.sentences: list[str] = []
        self.notes: list[str] = []

    def look(self) -> Seen:
        for message in self.handle.drain():
            if isinstance(message, Happened):
                self.events.append(json.loads(message.line))
            elif isinstance(message, Entered):
                self.states.append(message.state)
            elif isinstance(message, Noted):
                self.notes.append(message.sentence)
            elif isinstance(message, Refused):
                self.sentences.append(message.sentence)
        return self

    def until(self, true: Callable[[Seen], bool]) -> Seen:
        deadline = time.monotonic() + PATIENCE_S
        while not true(self.look()):
            assert time.monotonic() < deadline, (self.states, self.sentences, len(self.events))
            time.sleep(0.005)
        return self

    def done(self) -> Seen:
        return self.until(lambda s: "done" in s.states)

    def rounds(self, lane: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["kind"] == "round" and e["lane"] == lane]

    @property
    def ends(self) -> dict[str, str]:
        return {e["lane"]: e["reason"] for e in self.events if e["kind"] == "run_end"}
