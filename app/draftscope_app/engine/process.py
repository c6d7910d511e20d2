"""The engine in a process of its own, as the page sees it: jobs in, messages out, and no failure that hangs.

A UI thread in the decoding interpreter would distort the very jitter that the page exists to show; so decoding runs in
a spawned process, and one thread here routes what it says to the run that it belongs to.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Protocol

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine import log, worker
from draftscope_app.engine import messages as jobs

MOST_CRASHES = 3  # within CRASH_WINDOW_S: then the process stays down and the page says so
CRASH_WINDOW_S = 120.0


class Hears(Protocol):
    """An engine, as far as a run speaks to it."""

    def send(self, command: jobs.Command) -> None: ...


class RunHandle:
    """One run, seen from the page: messages to drain, and two commands."""

    def __init__(self, engine: Hears, job: jobs.Job) -> None:
        self.job = job
        self.state = "queued"
        self.asked = time.monotonic()
        self.begun: float | None = None
        self.stopped = False
        self.refused = False
        self._engine = engine
        self._inbox: deque[jobs.RunMessage] = deque()

    @property
    def done(self) -> bool:
        """True once the last message has been drained."""
        return self.state == "done" and not self._inbox

    def drain(self) -> list[jobs.RunMessage]:
        """Everything that has come since the last call; never waits."""
        messages = []
        with suppress(IndexError):
            while True:
                messages.append(self._inbox.popleft())
        return messages

    def step(self) -> None:
        self._engine.send(jobs.Step(self.job.run))

    def stop(self) -> None:
        if self.state != "done" and not self.stopped:
            self.stopped = True
            self._engine.send(jobs.Stop(self.job.run))

    def deliver(self, message: jobs.RunMessage) -> None:
        self._inbox.append(message)
        if isinstance(message, jobs.Refused):
            self.refused = True
        elif isinstance(message, jobs.Entered):
            if message.state == "done":
                log.run_over(self)
            else:
                self.begun = self.begun or time.monotonic()
            self.state = message.state


def runs_before(handle: RunHandle, runs: Mapping[str, RunHandle]) -> int:
    """How many of `runs`, in the order in which they came, are decoded or wait in front of one; 0 for one not there."""
    names = list(runs)
    before = names[: names.index(handle.job.run)] if handle.job.run in names else []
    return sum(runs[name].state in ("queued", "running") for name in before)


class EngineProcess:
    """Starts the process, keeps it running, and serves every visitor. `close()` ends it."""

    def __init__(self, load: jobs.Load, target: Callable[[Connection, jobs.Load], None] = worker.main) -> None:
        self.status = jobs.Engine()
        self.load = load
        self._wanted: jobs.Load | None = None  # in the place of `load`, once it has been loaded
        self._settled = self.status  # the last that was not loading
        self._target = target
        self._context = multiprocessing.get_context("spawn")
        self._runs: dict[str, RunHandle] = {}
        self._lock = threading.Lock()
        self._closing = False
        self._crashes: deque[float] = deque(maxlen=MOST_CRASHES)
        self._spawn()

    def run(self, job: jobs.Job) -> RunHandle:
        """Takes a job into the queue."""
        handle = RunHandle(self, job)
        with self._lock:
            self._runs[job.run] = handle
        if self.status.phase == "failed":
            self._end(handle, self.status.sentence)
        else:
            self.send(jobs.Start(job))
        return handle

    def change(self, load: jobs.Load) -> None:
        """Loads other models in place of those that are here; where that fails these stay, and `status` says why.

        Raises `DraftscopeError` while models are loading or runs are decoded.
        """
        if self.status.phase == "loading":
            raise DraftscopeError("Models are being loaded already; wait until they are there.")
        if len(self):
            raise DraftscopeError("Runs are decoded or wait here; load other models when they are over.")
        self._settled, self._wanted = self.status, load
        self.status = jobs.Engine("loading", "The engine loads other models.")
        self.send(jobs.Change(load))

    def place(self, handle: RunHandle) -> int:
        """How many runs are before this one."""
        with self._lock:
            return runs_before(handle, self._runs)

    def __len__(self) -> int:
        """Runs that are decoded or wait."""
        return len(self._runs)

    def send(self, command: jobs.Command) -> None:
        with self._lock, suppress(OSError, ValueError):  # a broken pipe is the reader's to report
            self._pipe.send(command)

    def wait_ready(self, seconds: float) -> jobs.Engine:
        """For tests and scripts: blocks until the models are loaded or have failed to."""
        deadline = time.monotonic() + seconds
        while self.status.phase == "loading" and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.status

    @property
    def pid(self) -> int | None:
        pid: int | None = self._process.pid
        return pid

    def close(self) -> None:
        with self._lock:  # not while a crashed process is being replaced
            self._closing = True
            process = self._process
            with suppress(OSError, ValueError):
                self._pipe.send(jobs.Quit())
        process.join(2.0)
        if process.is_alive():
            process.kill()
            process.join(2.0)

    # The process and the thread that listens to it.

    def _spawn(self) -> None:
        self._pipe, theirs = self._context.Pipe()
        self._process: Any = self._context.Process(
            target=self._target, args=(theirs, self.load), name="draftscope-engine", daemon=True
        )
        self._process.start()
        theirs.close()
        threading.Thread(target=self._route, args=(self._pipe,), name="draftscope-events", daemon=True).start()

    def _route(self, pipe: Connection) -> None:
        try:
            while True:
                self._take(pipe.recv())
        except (EOFError, OSError):
            if not self._closing:
                self._crashed()

    def _take(self, message: jobs.Message) -> None:
        if isinstance(message, jobs.Loading):
            self.status = jobs.Engine("loading", message.sentence)
        elif isinstance(message, jobs.Ready):
            self.load, self._wanted = self._wanted or self.load, None
            self.status = jobs.Engine("ready", message.sentence, message.drafters)
        elif isinstance(message, jobs.Kept):
            self._wanted = None
            self.status = replace(self._settled, refused=message.sentence)
        elif isinstance(message, jobs.LoadFailed):
            self.status = jobs.Engine("failed", message.sentence)
        else:
            self._deliver(message)

    def _deliver(self, message: jobs.RunMessage) -> None:
        with self._lock:
            handle = self._runs.get(message.run)
            if isinstance(message, jobs.Entered) and message.state == "done":
                self._runs.pop(message.run, None)
        if handle is not None:
            handle.deliver(message)

    def _crashed(self) -> None:
        """Every run of a dead process ends with a sentence, and a new process takes its place."""
        self._process.join(2.0)
        code, self._wanted = self._process.exitcode, None
        with self._lock:
            lost, self._runs = list(self._runs.values()), {}
        now = time.monotonic()
        hopeless = len(self._crashes) == MOST_CRASHES and now - self._crashes[0] < CRASH_WINDOW_S
        self._crashes.append(now)
        if hopeless:
            sentence = (
                f"The engine process keeps ending (exit code {code}); see the terminal, then start Draftscope again."
            )
            self.status = jobs.Engine("failed", sentence)
        else:
            sentence = (
                f"The engine process ended unexpectedly (exit code {code}) and is being restarted; "
                "run again in a moment."
            )
            self.status = jobs.Engine("loading", "The engine process ended unexpectedly and is being restarted.")
        for handle in lost:
            self._end(handle, sentence)
        with self._lock:
            if not hopeless and not self._closing:
                self._spawn()

    def _end(self, handle: RunHandle, sentence: str) -> None:
        with self._lock:
            self._runs.pop(handle.job.run, None)
        handle.deliver(jobs.Refused(handle.job.run, sentence))
        handle.deliver(jobs.Entered(handle.job.run, "done"))
