"""What comes of a job, as an append-only list that anybody may read from any place; and the one loop that reads it."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.base.progress import Progress
from draftscope.trace.events import EVENT, AnyEvent
from draftscope_app.engine import log
from draftscope_app.engine.jobs import NOBODY, Asker, Command, EngineStatus, Job, State, Step, Stop, Update
from draftscope_app.engine.notice import Notice
from draftscope_app.engine.turns import turns_before

PERIOD_S = 0.05  # what happens in less time is read together
REMOVED = (
    "This run is no longer on the server, which keeps the latest runs of its visitors only; run it again, or load the "
    "file that you saved."
)

Read = TypeVar("Read")


class Engine(Protocol):
    """`EngineProcess`, or what a task brings: what the page, the API and the health checks need of it."""

    @property
    def own_process(self) -> bool:
        """It decodes in another process than the page's."""

    @property
    def status(self) -> EngineStatus: ...

    @property
    def silent(self) -> str:
        """One sentence while the engine does not answer; else empty."""

    @property
    def load(self) -> LoadSettings:
        """Which models are loaded, and how."""

    @property
    def changed(self) -> Notice:
        """Given whenever `status`, the number of jobs, or anything about a job has changed."""

    def run(self, job: Job, log: Log | None = None, asker: Asker = NOBODY) -> Answer:
        """Takes a job of `asker` into the queue. Its events are added to the `log`, or to one of its own."""

    def send(self, command: Command) -> None:
        """Passes a command on; never waits for the engine."""

    def change(self, load: LoadSettings) -> None:
        """Loads other models in place of those that are loaded; `status` says what came of it.

        Raises `DraftscopeError` where it cannot be done now.
        """

    def place(self, answer: Answer) -> int:
        """How many turns come before this job's first one."""

    def __len__(self) -> int:
        """Jobs that are worked on or wait."""

    def close(self) -> None: ...


@dataclass
class Log:
    """Events, line by line as they came. `run` names the run that is shown by them; it is empty for one that was loaded
    from a file, and once the models are others."""

    run: str = ""
    lines: list[str] = field(default_factory=list)
    size: int = 0  # bytes in memory
    removed: bool = False  # to make room for other visitors

    def add(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.lines.append(line)
            self.size += sys.getsizeof(line)

    def require(self) -> None:
        """Raises `DraftscopeError` where it was removed."""
        if self.removed:
            raise DraftscopeError(REMOVED)

    def replace_last(self, line: str) -> None:
        """The line stands for all before it, of which only the places are kept."""
        if self.lines:
            self.size -= sys.getsizeof(self.lines[-1])
            self.lines[-1] = ""
        self.add([line])


class Answer:
    """What has come of a job so far, and two commands: `step` and `stop`."""

    def __init__(self, engine: Engine, job: Job, log: Log | None = None, asker: Asker = NOBODY) -> None:
        self.job, self.asker, self.log = job, asker, log if log is not None else Log(job.id)
        self.start = len(self.log.lines)  # of a fork: its events follow those of the run that it joins
        self.state: State = "queued"
        self.note: str | None = None  # the latest sentence about it
        self.refused = False  # `note` says why it could not go on
        self.progress: Progress | None = None  # how far it is, where no event says it
        self.stopped = False
        self.readers = 0
        self.created = datetime.now(UTC).isoformat(timespec="seconds")
        self._left = 0.0  # when the last reader left
        self._engine = engine
        self._queued_at, self._begun = time.monotonic(), 0.0

    @property
    def over(self) -> bool:
        return self.state == "done"

    @property
    def lines(self) -> list[str]:
        return self.log.lines

    @property
    def standing(self) -> str:
        """The state; "waiting" where it waits for the models."""
        return "waiting" if self.state == "queued" and self._engine.status.phase == "loading" else self.state

    def step(self) -> None:
        self._engine.send(Step(self.job.id))

    def stop(self) -> None:
        if not self.over and not self.stopped:
            self.stopped = True
            self._engine.send(Stop(self.job.id))

    def take(self, update: Update) -> None:
        """Called by the engine for each update of this job, before it gives notice."""
        if update.note is None or update.state:
            self.progress = update.progress
        if update.line:
            if self.job.keeps_last:
                self.log.replace_last(update.line)
            else:
                self.log.add([update.line])
        if update.note is not None:
            self.note, self.refused = update.note, update.state == "done"
        if update.state is not None:
            self._begun = self._begun or time.monotonic()
            self.state = update.state
            if self.over:
                self._log_end()

    def _log_end(self) -> None:
        """Logs how long the job waited and took. Never a refusal's sentence, which may quote what a visitor wrote."""
        *_, most = (None, *(settings.max_new_tokens for settings in self.job.lanes.values()))
        log.write(
            "run", run=self.job.id, lanes=len(self.job.lanes), max_tokens=most,
            waited_s=round(self._begun - self._queued_at, 3), took_s=round(time.monotonic() - self._begun, 3),
            stopped=self.stopped, refused=self.refused,
        )  # fmt: skip

    def end_reading(self, keep_s: float) -> None:
        """A reader has left; the job is stopped if nobody reads it `keep_s` seconds after the last one did."""
        self.readers -= 1
        self._left = left = time.monotonic()
        if self.readers or self.over:
            return
        if keep_s <= 0:
            self.stop()
        else:
            later(keep_s, lambda: None if self.readers or self._left != left else self.stop())


@dataclass(frozen=True)
class Part:
    """What is new of an answer: lines from the place `start` on, its standing, its place in the queue, how far it is,
    its note."""

    start: int
    lines: list[str]
    standing: str
    place: int
    progress: Progress | None
    note: str | None  # None: the same as before

    @property
    def waits(self) -> str:
        """Why nothing of it can be shown yet: what is measured first, or what it waits for; empty once it has begun."""
        if self.progress is not None:
            return f"measuring {self.progress.words}"
        if self.standing == "waiting":
            return "waiting for the engine"
        ahead = f", {self.place} ahead of you" if self.place else ""
        return f"in the queue{ahead}" if self.standing == "queued" else ""


async def follow(engine: Engine, answer: Answer, start: int = 0, keep_s: float = 0.0) -> AsyncIterator[Part]:
    """The answer from the place `start` on, until it is over. A reader who leaves ends the job, if nobody reads it
    `keep_s` seconds later."""

    def read() -> tuple[str, int, Progress | None, str | None, int]:  # in this order: none is left out
        return answer.standing, engine.place(answer), answer.progress, answer.note, len(answer.lines)

    answer.readers += 1
    said: str | None = None
    try:
        async for standing, place, progress, note, end in watch(engine.changed, read):
            lines = [line for line in answer.lines[start:end] if line]
            yield Part(start, lines, standing, place, progress, note if note != said else None)
            start, said = end, note
            if standing == "done":
                return
    finally:
        answer.end_reading(keep_s)


async def whole(engine: Engine, answer: Answer) -> list[AnyEvent]:
    """All events of a run once it is over. A caller who leaves ends it. Raises `DraftscopeError` for a refused one."""
    async for _ in follow(engine, answer):
        pass
    if answer.refused:
        raise DraftscopeError(str(answer.note))
    if not answer.lines:
        raise DraftscopeError("The run was stopped before it began; try again.")
    return [EVENT.validate_json(line) for line in answer.lines]


async def watch(changed: Notice, read: Callable[[], Read], patience_s: float | None = None) -> AsyncIterator[Read]:
    """What `read` gives now and whenever that is another thing, after a change or `patience_s` seconds."""
    seen: list[Read] = []
    while True:
        count, now = changed.count, read()
        if [now] != seen:
            yield now
            seen = [now]
        await asyncio.sleep(PERIOD_S)
        await changed.wait(count, patience_s)


def later(seconds: float, act: Callable[[], object]) -> None:
    """Calls `act` after so many seconds, in a thread that holds up no end of the server."""
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()


def place_of(answer: Answer, answers: Mapping[str, Answer]) -> int:
    """How many turns come before the first one of `answer`; `answers` are those that are here, in order of arrival."""
    waiting = {name: one for name, one in answers.items() if one is answer or one.state in ("queued", "running")}
    return turns_before(answer.job.id, {name: one.asker for name, one in waiting.items()})
