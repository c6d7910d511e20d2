"""The engine in the page's own process, for ZeroGPU: there a GPU is lent to a function for the length of one call.

The models are on the device from the start. A run is one call of a generator, which runs ahead in a forked worker: its
messages come in batches, a run in steps is decoded whole and handed out a round at a time, and a stop reaches the
worker through shared memory. Without ZeroGPU, `spaces.GPU` does nothing and the same code decodes in this process.
"""

from __future__ import annotations

import json
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
from draftscope.base.steps import said
from draftscope_app.engine import messages as jobs
from draftscope_app.engine.handle import RunHandle, place_of
from draftscope_app.engine.notice import Notice
from draftscope_app.engine.opening import opened
from draftscope_app.engine.play import events_of, sentence_of
from draftscope_app.engine.status import chats, choices, introduced
from draftscope_app.engine.turns import Turns

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

SLOTS = 1024  # runs at the same time; each has a flag that stops it
BATCH_S = 0.1  # between batches out of the worker
SETUP_S, SECONDS_A_TOKEN, MOST_S = 6.0, 0.02, 120.0  # of one call: assumed, not measured
ALL = 10**9  # rounds: more than a run has
TAG = re.compile(r"<[^>]+>")

Lend = Callable[..., Callable[..., Any]]  # `spaces.GPU`


def seconds(job: jobs.Job, _slot: int) -> int:
    """How long a GPU is asked for, from the number of tokens that a run may write in all its lanes and repeats."""
    tokens = sum(int(settings.get("max_new_tokens", 128)) for _, settings in job.lanes)
    whole = SETUP_S + SECONDS_A_TOKEN * tokens * (1 + job.solo_repeats + job.compares)
    return round(MOST_S if job.checks or job.advises else min(MOST_S, whole))


class ZeroEngine:
    """What `EngineProcess` is elsewhere: decodes whole runs, one at a time, whose visitors take turns."""

    def __init__(self, load: LoadSettings, lend: Lend, place: str = "") -> None:
        self.load = load
        self.silent = ""  # it is in this process, which answers
        self.changed = Notice()
        self._runs: dict[str, RunHandle] = {}
        self._slots: dict[str, int] = {}
        self._budgets: dict[str, _StepBudget] = {}  # of the runs in steps
        self._lock = threading.RLock()
        self._flags = multiprocessing.get_context("fork").RawArray("b", SLOTS)  # set: that slot's run is to stop
        self._free = deque(range(SLOTS))
        self._lab, self.status = _loaded(load, place)
        self._lent = lend(duration=seconds)(self._batches)
        self._turns = Turns[_Waiting]()
        self._waiting: list[_Waiting] = []
        self._decoding = ThreadPoolExecutor(max_workers=1, thread_name_prefix="draftscope-run")

    # Runs.

    def run(self, job: jobs.Job) -> RunHandle:
        """Takes a job into the queue, with the context of the visitor's request, which holds their quota."""
        handle = RunHandle(self, job)
        if self._lab is None:
            self._deliver(handle, jobs.Refused(job.run, self.status.sentence), jobs.Entered(job.run, "done"))
            return handle
        with self._lock:
            self._runs[job.run] = handle
            slot = self._slots[job.run] = self._free.popleft()
            self._flags[slot] = 0
            if job.steps is not None:
                self._budgets[job.run] = _StepBudget(handle, job.steps)
            self._waiting.append(_Waiting(handle, slot, copy_context()))
        self._decoding.submit(self._decode_next)
        return handle

    def send(self, command: jobs.Command) -> None:
        """A step or a stop."""
        if not isinstance(command, jobs.Step | jobs.Stop):
            return
        with self._lock:
            handle, budget = self._runs.get(command.run), self._budgets.get(command.run)
            if handle is None:
                return
            if isinstance(command, jobs.Stop):
                if command.run in self._slots:  # it is still decoded
                    self._flags[self._slots[command.run]] = 1
                if budget is not None:
                    budget.close()
                if handle.state in ("queued", "stepping"):
                    self._deliver(handle, jobs.Entered(command.run, "done"))
            elif budget is not None:
                self._deliver(handle, *budget.add())

    def change(self, load: LoadSettings) -> None:  # noqa: ARG002 - every engine has it
        """Raises `DraftscopeError`: the models are on the device from the start."""
        raise DraftscopeError("On ZeroGPU other models cannot be loaded; start a server of your own for them.")

    def place(self, handle: RunHandle) -> int:
        """How many turns come before this run's first one."""
        with self._lock:
            return place_of(handle, self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def close(self) -> None:
        self._flags[:] = [1] * SLOTS
        self._decoding.shutdown(wait=True, cancel_futures=True)

    # A run, as the page's process sees it.

    def _decode_next(self) -> None:
        """Decodes the whole run of the visitor whose turn it is."""
        with self._lock:
            chosen = self._turns.next(self._waiting)
            assert chosen is not None  # there is a call of this for each that waits
            self._waiting.remove(chosen)
        chosen.context.run(self._decode, chosen.handle, chosen.slot)

    def _decode(self, handle: RunHandle, slot: int) -> None:
        run = handle.job.run
        try:
            if handle.state != "done":
                for batch in self._lent(handle.job, slot):
                    self._take(handle, batch)
        except Exception as error:  # no GPU, no quota left, or the worker died
            sentence = TAG.sub("", str(getattr(error, "message", error)))
            self._take(handle, [jobs.Refused(run, f"No GPU decoded this run ({sentence}).")])
        finally:
            with self._lock:
                self._slots.pop(run, None)
                self._free.append(slot)
            self._take(handle, [jobs.Entered(run, "done")])

    def _take(self, handle: RunHandle, batch: list[jobs.RunMessage]) -> None:
        with self._lock:
            budget = self._budgets.get(handle.job.run)
            self._deliver(handle, *(batch if budget is None else budget.put(batch)))

    def _deliver(self, handle: RunHandle, *messages: jobs.RunMessage) -> None:
        """Nothing is delivered once a run is over."""
        for message in messages if handle.state != "done" else ():
            handle.deliver(message)
            if isinstance(message, jobs.Entered) and message.state == "done":
                self._runs.pop(handle.job.run, None)
                self._budgets.pop(handle.job.run, None)
                break
        self.changed.give()

    # A run, in the worker.

    def _batches(self, job: jobs.Job, slot: int) -> Iterator[list[jobs.RunMessage]]:
        """All messages of a run, a few at a time: each batch crosses a process."""
        batch: list[jobs.RunMessage] = []
        sent = time.monotonic()
        for message in self._messages(job, lambda: bool(self._flags[slot])):
            batch.append(message)
            if time.monotonic() - sent >= BATCH_S:
                yield batch
                batch, sent = [], time.monotonic()
        yield batch

    def _messages(self, job: jobs.Job, cancelled: Callable[[], bool]) -> Iterator[jobs.RunMessage]:
        assert self._lab is not None
        states: list[jobs.State] = ["running"]
        try:
            for event in said(events_of(self._lab, job, cancelled, lambda: states.append("solo"))):
                yield from (jobs.Entered(job.run, state) for state in states)
                states.clear()
                yield jobs.Happened(job.run, event.model_dump_json(exclude_none=True))
        except Exception as error:
            yield jobs.Refused(job.run, sentence_of(error))
        yield jobs.Entered(job.run, "done")


@dataclass(eq=False)
class _Waiting:
    """A run that waits for its turn, with the context of the visitor's request."""

    handle: RunHandle
    slot: int
    context: Context
    ready = True
    begun = False

    @property
    def asker(self) -> jobs.Asker:
        return self.handle.job.asker

    @property
    def measures(self) -> bool:
        return not self.handle.job.is_run


class _StepBudget:
    """The messages of a run in steps, handed out for as many rounds as were asked for."""

    def __init__(self, handle: RunHandle, rounds: int) -> None:
        self._job, self._rounds = handle.job, rounds
        self._kept: deque[jobs.RunMessage] = deque()

    def put(self, batch: list[jobs.RunMessage]) -> list[jobs.RunMessage]:
        self._kept += batch
        return self._due() if self._rounds else []

    def add(self) -> list[jobs.RunMessage]:
        self._rounds += 1
        return [jobs.Entered(self._job.run, "running"), *self._due()]

    def close(self) -> None:
        """Drops the messages that wait; whatever still comes is handed out at once."""
        self._kept.clear()
        self._rounds = ALL

    def _due(self) -> list[jobs.RunMessage]:
        """What the budget covers: a round of the drafting lane costs one, and after that lane's end nothing does."""
        due: list[jobs.RunMessage] = []
        while self._kept and self._rounds:
            message = self._kept.popleft()
            due.append(message)
            if not isinstance(message, jobs.Happened):
                continue
            event = json.loads(message.line)
            if event["lane"] != self._job.lanes[-1][0]:
                continue
            if event["kind"] == "round":
                self._rounds -= 1
                if not self._rounds:
                    due.append(jobs.Entered(self._job.run, "stepping"))
            elif event["kind"] == "run_end":
                self._rounds = ALL
        return due


def _loaded(load: LoadSettings, place: str) -> tuple[DecodingEngine | None, jobs.EngineStatus]:
    """The models and their status, or None and why they could not be loaded."""
    began = time.monotonic()
    try:
        engine, instead = opened(load)
    except DraftscopeError as error:
        return None, jobs.EngineStatus("failed", str(error))
    sentence = introduced(engine, time.monotonic() - began, place, instead)
    return engine, jobs.EngineStatus("ready", sentence, choices(engine), chat=chats(engine))
