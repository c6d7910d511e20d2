"""The engine in a process of its own, as the page sees it: jobs in, updates out, and no failure that hangs.

Decoding in the page's own interpreter would distort the very jitter that the page exists to show. So it runs in a
spawned process. One thread here sends commands to it and one reads its messages: neither the event loop nor a visitor
ever waits for a slow engine.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ctypes import c_uint64
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine import worker
from draftscope_app.engine.answers import Answer, Log, place_of
from draftscope_app.engine.beats import LOOK_S, QUIET_S, SILENT_S, Beats, Watch
from draftscope_app.engine.jobs import (
    NOBODY,
    Asker,
    Change,
    Command,
    EngineStatus,
    Job,
    Message,
    Quit,
    Start,
    Update,
)
from draftscope_app.engine.notice import Notice

MAX_CRASHES = 3  # in a row, each within CRASH_WINDOW_S of its start; after more there is a pause before the next start
CRASH_WINDOW_S = 120.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 300.0  # each pause is twice as long as the one before
END_S = 0.5  # for the process to end by itself
ENDING = {signal.SIGINT, signal.SIGTERM}

SILENT = "The engine does not answer at the moment."

Target = Callable[[Connection, LoadSettings, Beats], None]  # what the process does
Commands = SimpleQueue[Command | None]  # None ends the thread that sends them


class EngineProcess:
    """Starts the process, keeps it running, and serves every visitor. `close()` ends it.

    A process that does not answer for `silent_s` seconds is ended and started again; see `beats.py`.
    """

    own_process = True

    def __init__(self, load: LoadSettings, target: Target = worker.main, silent_s: float = SILENT_S) -> None:
        self.status = EngineStatus()
        self.silent = ""
        self.load = load
        self._silent_s = silent_s
        self.changed = Notice()
        self._next_load: LoadSettings | None = None  # becomes `load` once it has been loaded
        self._target = target
        self._context = multiprocessing.get_context("spawn")
        self._answers: dict[str, Answer] = {}  # of jobs that are not over
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._crashes = 0  # in a row
        self._killed = False  # because it did not answer
        self._refused = ""  # why other models were not loaded: the process ended while it loaded them
        self._commands: Commands = SimpleQueue()
        self._spawn()

    def run(self, job: Job, log: Log | None = None, asker: Asker = NOBODY) -> Answer:
        """Takes a job into the queue."""
        answer = Answer(self, job, log, asker)
        with self._lock:  # not while a crashed process is being replaced
            failed = self.status.phase == "failed"
            if not failed:
                self._answers[job.id] = answer
                self._commands.put(Start(job, asker))
        if failed:
            self._end(answer, self.status.sentence)
        elif self.silent:
            answer.take(Update(job.id, note=self.silent))
        return answer

    def change(self, load: LoadSettings) -> None:
        """Loads other models in place of those that are loaded; where that fails these stay, and `status` says why.

        Raises `DraftscopeError` while models are loading or runs are decoded.
        """
        with self._lock:
            if self.status.phase == "loading":
                raise DraftscopeError("Models are being loaded already; wait until that is done.")
            if self._answers:
                raise DraftscopeError("Runs are being decoded or wait here; load other models when they are over.")
            self._next_load = load
            self.status = EngineStatus("loading", "The engine is loading other models.")
            self._commands.put(Change(load))
        self.changed.give()

    def place(self, answer: Answer) -> int:
        """How many turns come before this job's first one."""
        with self._lock:
            return place_of(answer, self._answers)

    def __len__(self) -> int:
        """Runs that are decoded or wait."""
        return len(self._answers)

    def send(self, command: Command) -> None:
        """Passes a command on. Never waits: the engine process may be busy, and the pipe full."""
        with self._lock:
            self._commands.put(command)

    def close(self) -> None:
        """Ends the process; runs that are left end with one sentence."""
        with self._lock:  # not while a crashed process is being replaced
            self._closing.set()
            process = self._process
            self._commands.put(Quit())
            self._commands.put(None)
            lost, self._answers = list(self._answers.values()), {}
        for answer in lost:
            self._end(answer, "The server is ending; run again in a minute.")
        process.join(END_S)
        if process.is_alive():
            process.kill()
            process.join(END_S)

    # The process, the thread that sends to it, and the thread that reads from it.

    def _spawn(self) -> None:
        pipe, theirs = self._context.Pipe()
        number = self._context.RawValue(c_uint64)
        self._process = self._context.Process(
            target=_run, args=(self._target, theirs, self.load, number), name="draftscope-engine", daemon=True
        )
        with uninterrupted():
            self._process.start()
        self._started = time.monotonic()
        theirs.close()
        threading.Thread(target=_send_all, args=(pipe, self._commands), name="draftscope-commands", daemon=True).start()
        over = threading.Event()
        threading.Thread(target=self._read_all, args=(pipe, over), name="draftscope-events", daemon=True).start()
        watched = self._process, over, Watch(number)
        threading.Thread(target=self._watch, args=watched, name="draftscope-watch", daemon=True).start()

    def _watch(self, process: BaseProcess, over: threading.Event, watch: Watch) -> None:
        """Tells visitors while the process does not answer, and in the end kills it; `_crashed` starts another one."""
        while not over.wait(LOOK_S):
            quiet_s = watch.look()
            if quiet_s >= self._silent_s:
                self._killed = True
                process.kill()
                return
            self._say_silent(quiet_s >= QUIET_S)

    def _say_silent(self, silent: bool) -> None:
        if silent == bool(self.silent):
            return
        self.silent = f"{SILENT} It is ended and started again after {self._silent_s:g} s." if silent else ""
        with self._lock:
            waiting = list(self._answers.values())
        for answer in waiting:
            answer.take(Update(answer.job.id, note=self.silent))
        self.changed.give()

    def _read_all(self, pipe: Connection, over: threading.Event) -> None:
        try:
            while True:
                message = pipe.recv()
                self._say_silent(False)  # it answers
                self._take(message)
                self.changed.give()
        except (EOFError, OSError):
            over.set()
            if not self._closing.is_set():
                self._crashed()

    def _take(self, message: Message) -> None:
        if isinstance(message, Update):
            with self._lock:
                answer = self._answers.get(message.id)
                if message.state == "done":
                    self._answers.pop(message.id, None)
            if answer is not None:
                answer.take(message)
            return
        if message.phase != "loading":
            if message.phase == "ready" and not message.refused:
                self.load = self._next_load or self.load
            self._next_load = None
        if message.phase == "ready" and self._refused:
            message, self._refused = replace(message, refused=self._refused), ""
        self.status = message

    def _crashed(self) -> None:
        """Every run of a dead process ends with a sentence, and a new process takes its place: at once, or after a
        pause if one after the other ends."""
        self._process.join(2.0)
        ended = f"The engine process ended unexpectedly (exit code {self._process.exitcode})"
        keeps = f"The engine process keeps ending (exit code {self._process.exitcode})"
        if self._killed:
            ended = f"The engine process did not answer for {self._silent_s:g} s"
            keeps = "The engine process keeps giving no answer"
        quickly = time.monotonic() - self._started < CRASH_WINDOW_S
        self._crashes = self._crashes + 1 if quickly else 1
        sentence = f"{ended} and is being restarted; run again in a moment."
        status = EngineStatus("loading", f"{ended} and is being restarted.")
        if pause := pause_after(self._crashes):
            sentence = f"{keeps}; it is started again in {pause:.0f} s. See the terminal for the cause."
            status = EngineStatus("failed", sentence, comes_back=True)
        with self._lock:  # a run that comes from now on is the new process's, or is refused
            if self._next_load is not None:
                self._refused = f"{ended} while it loaded other models."
            self._next_load = None
            self.status = status
            self._killed, self.silent = False, ""
            lost, self._answers = list(self._answers.values()), {}
            self._commands.put(None)
            self._commands = SimpleQueue()
        for answer in lost:
            self._end(answer, sentence)
        self.changed.give()
        self._closing.wait(pause)
        with self._lock:
            if not self._closing.is_set():
                self.status = EngineStatus("loading", f"{ended} and is being restarted.")
                self._spawn()
        self.changed.give()

    def _end(self, answer: Answer, sentence: str) -> None:
        """A job that never reached the engine, or was lost with it, ends with one sentence."""
        answer.take(Update(answer.job.id, state="done", note=sentence))
        self.changed.give()


def pause_after(crashes: int) -> float:
    """Seconds to wait before the next start, after so many crashes in a row."""
    more = crashes - MAX_CRASHES
    return min(FIRST_PAUSE_S * 2.0 ** (more - 1), LONGEST_PAUSE_S) if more > 0 else 0.0


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until a process has been started: what it is started with must arrive whole. It inherits
    the mask, so that no moment of its own start is left open; Ctrl-C never reaches it, since the server ends it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # Python's own process: to start it unblocks both signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        with _handled_later():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _handled_later() -> Iterator[None]:
    """The mask is this thread's. A library's thread receives the signal, and Python handles it in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = {number: signal.signal(number, lambda number, _: received.append(number)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in received:
            signal.raise_signal(late)


def _run(target: Target, pipe: Connection, load: LoadSettings, number: c_uint64) -> None:
    """The engine process from its beginning: SIGTERM ends it, as the server's own end sends it."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    beats = Beats(number)
    beats.start()
    target(pipe, load, beats)


def _send_all(pipe: Connection, commands: Commands) -> None:
    """Sends commands in order until None comes or the pipe breaks, which the reading thread deals with."""
    with suppress(OSError, ValueError):
        for command in iter(commands.get, None):
            pipe.send(command)
