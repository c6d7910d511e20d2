"""One run, as the page and the API see it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from draftscope_app.engine import log
from draftscope_app.engine.messages import Command, Entered, Job, Refused, RunMessage, State, Step, Stop
from draftscope_app.engine.turns import turns_before


class Receiver(Protocol):
    """The part of an engine that a run needs."""

    def send(self, command: Command) -> None: ...


class RunHandle:
    """Messages to drain, and two commands: `step` and `stop`."""

    def __init__(self, engine: Receiver, job: Job) -> None:
        self.job = job
        self.state: State = "queued"
        self.stopped = False
        self.reader: object | None = None  # who drains the messages; another one takes its place
        self._unread_since = 0.0
        self._asked = time.monotonic()
        self._begun: float | None = None
        self._refused = False
        self._engine = engine
        self._inbox: deque[RunMessage] = deque()

    @property
    def over(self) -> bool:
        """True once every message has been delivered."""
        return self.state == "done"

    @property
    def done(self) -> bool:
        """True once every message has been drained too."""
        return self.over and not self._inbox

    def drain(self) -> list[RunMessage]:
        """Everything that has come since the last call; never waits."""
        messages = []
        with suppress(IndexError):
            while True:
                messages.append(self._inbox.popleft())
        return messages

    def unread(self, keep_s: float) -> None:
        """The reader has left; the run is stopped if no other one has come after `keep_s` seconds."""
        self.reader, self._unread_since = None, time.monotonic()
        if keep_s <= 0:
            self.stop()
        elif not self.over:
            later(keep_s, self._stop_unread, self._unread_since)

    def _stop_unread(self, since: float) -> None:
        if self.reader is None and self._unread_since == since:
            self.stop()

    def step(self) -> None:
        self._engine.send(Step(self.job.run))

    def stop(self) -> None:
        if self.state != "done" and not self.stopped:
            self.stopped = True
            self._engine.send(Stop(self.job.run))

    def deliver(self, message: RunMessage) -> None:
        """Called by the engine for each message of this run, before it gives notice."""
        self._inbox.append(message)
        if isinstance(message, Refused):
            self._refused = True
        elif isinstance(message, Entered):
            if message.state == "done":
                self._log_end()
            else:
                self._begun = self._begun or time.monotonic()
            self.state = message.state

    def _log_end(self) -> None:
        """Logs how long the run waited and took. Never a refusal's sentence, which may quote what the visitor wrote."""
        now = time.monotonic()
        begun = self._begun or now
        log.write(
            "run", run=self.job.run, lanes=len(self.job.lanes),
            most_tokens=self.job.lanes[-1][1].get("max_new_tokens"), waited_s=round(begun - self._asked, 3),
            took_s=round(now - begun, 3), stopped=self.stopped, refused=self._refused,
        )  # fmt: skip


def later(seconds: float, act: Callable[[float], None], since: float) -> None:
    """Calls `act(since)` after so many seconds, in a thread that holds up no end of the server."""
    timer = threading.Timer(seconds, act, (since,))
    timer.daemon = True
    timer.start()


def place_of(handle: RunHandle, runs: Mapping[str, RunHandle]) -> int:
    """How many turns come before the first one of `handle`; `runs` are those that are here, in order of arrival."""
    waiting = {name: run for name, run in runs.items() if run is handle or run.state in ("queued", "running")}
    return turns_before(handle.job.run, {name: run.job.asker for name, run in waiting.items()})
