"""Jobs in the engine process, as tests ask for them and watch them."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from draftscope.drafters.settings import Settings
from draftscope_app.engine.answers import Answer, Engine
from draftscope_app.engine.jobs import EngineStatus, Update, new_id
from draftscope_app.engine.process import EngineProcess
from draftscope_app.engine.run_job import RunJob

PATIENCE_S = 120.0


def job(
    tokens: int = 12,
    steps: int | None = None,
    solo: int = 0,
    prompt: str = "abc",
    **settings: Any,
) -> RunJob:
    common = {"max_new_tokens": tokens, "temperature": 1.0}
    lanes = {
        "plain": Settings.of(**common, drafter="plain"),
        "speculative": Settings.of(**common | {"drafter": "draft", "gamma": 3} | settings),
    }
    return RunJob(id=new_id(), prompt=prompt, lanes=lanes, steps=steps, solo_repeats=solo)


def wait_loaded(engine: Engine) -> EngineStatus:
    """Its status once its models are loaded or could not be."""
    engine.changed.wait_until(lambda: engine.status.phase != "loading", PATIENCE_S)
    return engine.status


@contextmanager
def held(process: EngineProcess) -> Iterator[None]:
    """Whatever the engine process is asked for meanwhile begins once all of it was."""
    assert process._process.pid is not None
    os.kill(process._process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process._process.pid, signal.SIGCONT)


class Seen:
    """Everything that an answer has held so far: its events, states and notes."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.states: list[str] = []
        self.notes: list[str] = []
        self.sentences: list[str] = []  # why it could not go on
        self._due: list[tuple[Callable[[Seen], bool], Callable[[], object]]] = []
        self._take = answer.take
        answer.take = self._heed  # type: ignore[method-assign]
        if answer.state != "queued" or answer.note is not None:
            self._note(Update(answer.job.id, state=answer.state, note=answer.note))

    def _heed(self, update: Update) -> None:
        self._note(update)
        self._take(update)
        for true, act in [due for due in self._due if due[0](self)]:
            self._due.remove((true, act))
            act()

    def when(self, true: Callable[[Seen], bool], act: Callable[[], object]) -> Seen:
        """Acts once, at the update after which this is true: before the next one is taken."""
        self._due.append((true, act))
        return self

    def _note(self, update: Update) -> None:
        if update.note is not None:
            (self.sentences if update.state == "done" else self.notes).append(update.note)
        if update.state not in (None, "queued"):
            self.states.append(str(update.state))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(self.answer.lines) if line]

    def until(self, true: Callable[[Seen], bool]) -> Seen:
        deadline = time.monotonic() + PATIENCE_S
        while not true(self):
            assert time.monotonic() < deadline, (self.states, self.sentences, len(self.events))
            time.sleep(0.005)
        return self

    def done(self) -> Seen:
        return self.until(lambda s: s.answer.over)

    def rounds(self, lane: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["kind"] == "round" and e["lane"] == lane]

    @property
    def ends(self) -> dict[str, str]:
        return {e["lane"]: e["reason"] for e in self.events if e["kind"] == "run_end"}
