"""The engine in the page's own process, for ZeroGPU: there a GPU is lent to a function for the length of one call.

The models are on the device from the start. A run is one call of a generator, which runs ahead in a forked worker: its
messages come in batches, a run in steps is decoded whole and handed out a round at a time, and a stop reaches the
worker through shared memory. Without ZeroGPU, `spaces.GPU` does nothing and the same code decodes in this process.
"""

from __future__ import annotations

import multiprocessing
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine import jobs
from draftscope_app.engine.answers import Answer, Log, place_of
from draftscope_app.engine.jobs import EngineStatus, Update
from draftscope_app.engine.notice import Notice
from draftscope_app.engine.opening_models import opened, ready
from draftscope_app.engine.run_job import RunJob
from draftscope_app.engine.turns import Turns
from draftscope_app.engine.work import Work

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

SLOTS = 1024  # jobs at the same time; each has a flag that stops it
BATCH_S = 0.1  # between batches out of the worker
SETUP_S, SECONDS_A_TOKEN, MAX_S = 6.0, 0.02, 120.0  # of one call: assumed, not measured
ALL = 10**9  # rounds: more than a run has
TAG = re.compile(r"<[^>]+>")

Lend = Callable[..., Callable[..., Any]]  # `spaces.GPU`


def seconds(job: jobs.Job, _slot: int) -> int:
    """How long a GPU is asked for, from the number of tokens that a job may write in all its lanes and repeats."""
    tokens = sum(settings.max_new_tokens for settings in job.lanes.values())
    runs = job.repeats_of_lanes
    if runs is None:
        return round(MAX_S)
    return round(min(MAX_S, SETUP_S + SECONDS_A_TOKEN * tokens * runs))


class ZeroEngine:
    """What `EngineProcess` is elsewhere: does whole jobs, one at a time, whose visitors take turns."""

    own_process = False

    def __init__(self, load: LoadSettings, lend: Lend, place: str = "") -> None:
        self.load = load
        self.silent = ""  # it is in this process, which answers
        self.changed = Notice()
        self._waiting: list[_Waiting] = []  # in order of arrival
        self._here: dict[str, _Waiting] = {}  # the same, and those that have begun
        self._lock = threading.RLock()
        self._flags = multiprocessing.get_context("fork").RawArray("b", SLOTS)  # set: that slot's job is to stop
        self._free = deque(range(SLOTS))
        self._engine, self.status = _loaded(load, place)
        self._lent = lend(duration=seconds)(self._batches)
        self._turns = Turns[_Waiting]()
        self._decoding = ThreadPoolExecutor(max_workers=1, thread_name_prefix="draftscope-run")

    # Jobs.

    def run(self, job: jobs.Job, log: Log | None = None, asker: jobs.Asker = jobs.NOBODY) -> Answer:
        """Takes a job into the queue, with the context of the visitor's request, which holds their quota."""
        answer = Answer(self, job, log, asker)
        if self._engine is None:
            answer.take(Update(job.id, state="done", note=self.status.sentence))
            return answer
        with self._lock:
            slot = self._free.popleft()
            self._flags[slot] = 0
            waiting = self._here[job.id] = _Waiting(answer, slot, copy_context())
            self._waiting.append(waiting)
        self._decoding.submit(self._decode_next)
        return answer

    def send(self, command: jobs.Command) -> None:
        """A step or a stop."""
        if not isinstance(command, jobs.Step | jobs.Stop):
            return
        with self._lock:
            here = self._here.get(command.id)
            if here is None:
                return
            if isinstance(command, jobs.Step):
                self._deliver(here, *here.add_round())
                return
            if here.slot is not None:  # it is still decoded
                self._flags[here.slot] = 1
            here.hand_out_all()
            if here.answer.state in ("queued", "stepping"):
                self._deliver(here, Update(command.id, state="done"))

    def change(self, load: LoadSettings) -> None:  # noqa: ARG002 - every engine has it
        """Raises `DraftscopeError`: the models are on the device from the start."""
        raise DraftscopeError("On ZeroGPU other models cannot be loaded; start a server of your own for them.")

    def place(self, answer: Answer) -> int:
        """How many turns come before this job's first one."""
        with self._lock:
            return place_of(answer, {id: here.answer for id, here in self._here.items()})

    def __len__(self) -> int:
        return len(self._here)

    def close(self) -> None:
        self._flags[:] = [1] * SLOTS
        self._decoding.shutdown(wait=True, cancel_futures=True)

    # A job, as the page's process sees it.

    def _decode_next(self) -> None:
        """Does the whole job of the visitor whose turn it is."""
        with self._lock:
            chosen = self._turns.next(self._waiting)
            assert chosen is not None  # there is a call of this for each that waits
            self._waiting.remove(chosen)
        chosen.context.run(self._decode, chosen)

    def _decode(self, here: _Waiting) -> None:
        job, slot = here.answer.job, here.slot
        assert slot is not None
        end = Update(job.id, state="done")  # unless the worker has said so
        try:
            if not here.answer.over:
                for batch in self._lent(job, slot):
                    self._take(here, batch)
        except Exception as error:  # no GPU, no quota left, or the worker died
            sentence = TAG.sub("", str(getattr(error, "message", error)))
            end = Update(job.id, state="done", note=f"No GPU decoded this run ({sentence}).")
        finally:
            with self._lock:
                here.slot = None
                self._free.append(slot)
            self._take(here, [end])

    def _take(self, here: _Waiting, batch: list[Update]) -> None:
        with self._lock:
            self._deliver(here, *here.put(batch))

    def _deliver(self, here: _Waiting, *updates: Update) -> None:
        """Nothing is delivered once a job is over."""
        for update in updates:
            if here.answer.over:
                break
            here.answer.take(update)
        if here.answer.over:
            self._here.pop(here.answer.job.id, None)
        self.changed.give()

    # A job, in the worker.

    def _batches(self, job: jobs.Job, slot: int) -> Iterator[list[Update]]:
        """All updates of a job, a few at a time: each batch crosses a process."""
        batch = [Update(job.id, state="running")]
        sent = time.monotonic()
        for update in self._updates(job, slot):
            batch.append(update)
            if time.monotonic() - sent >= BATCH_S:
                yield batch
                batch, sent = [], time.monotonic()
        yield batch

    def _updates(self, job: jobs.Job, slot: int) -> Iterator[Update]:
        assert self._engine is not None

        def look() -> None:
            work.stopping = bool(self._flags[slot])

        work = Work(self._engine, job, look)
        update = None
        while update is None or update.state != "done":
            look()
            update = work.advance()
            if update is not None:
                yield update


@dataclass(eq=False)
class _Waiting:
    """A job that is here, with the context of the visitor's request. Updates of a run in steps are kept, and handed out
    for as many rounds as were asked for."""

    answer: Answer
    slot: int | None  # None once nothing of it is decoded any more
    context: Context
    ready = True
    begun = False

    def __post_init__(self) -> None:
        job = self.answer.job
        self._rounds = (job.steps if isinstance(job, RunJob) else None) or ALL
        self._kept: deque[Update] = deque()

    @property
    def asker(self) -> jobs.Asker:
        return self.answer.asker

    @property
    def measures(self) -> bool:
        return not self.answer.job.is_run

    def put(self, batch: list[Update]) -> list[Update]:
        """Takes these; gives what the rounds cover."""
        self._kept += batch
        return self._due()

    def add_round(self) -> list[Update]:
        if self._rounds == ALL:
            return []
        self._rounds += 1
        return [Update(self.answer.job.id, state="running"), *self._due()]

    def hand_out_all(self) -> None:
        """Drops the updates that wait; whatever still comes is handed out at once."""
        self._kept.clear()
        self._rounds = ALL

    def _due(self) -> list[Update]:
        due: list[Update] = []
        while self._kept and self._rounds:
            update = self._kept.popleft()
            if update.state == "stepping" and self._rounds != ALL:
                self._rounds -= 1
            if update.state == "stepping" and self._rounds:
                update = Update(update.id, update.line)
            due.append(update)
        return due


def _loaded(load: LoadSettings, place: str) -> tuple[DecodingEngine | None, EngineStatus]:
    """The models and their status, or None and why they could not be loaded."""
    began = time.monotonic()
    try:
        engine, instead = opened(load)
    except DraftscopeError as error:
        return None, EngineStatus("failed", str(error))
    return engine, ready(engine, time.monotonic() - began, place, instead)
