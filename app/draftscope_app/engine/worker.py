"""The engine process's loop: it loads the models once and advances one job at a time, step by step.

Whose turn it is, `turns.py` says. A run in steps waits without using the processor while others go on. Commands are
read between steps. `beats.py` tells the server that the loop goes round.
"""

from __future__ import annotations

import time
import traceback
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from draftscope.base.errors import DraftscopeError, memory_ran_out
from draftscope.base.load_settings import LoadSettings
from draftscope.base.progress import Progress
from draftscope.base.stages import Stage, tell, watched_by
from draftscope.base.steps import Steps
from draftscope.models import beforehand
from draftscope_app.engine import jobs
from draftscope_app.engine.beats import Beats
from draftscope_app.engine.free_memory import Trimmer
from draftscope_app.engine.jobs import EngineStatus, Update
from draftscope_app.engine.opening_models import loading, opened, opens, ready, source
from draftscope_app.engine.run_job import RunJob
from draftscope_app.engine.turns import Turns
from draftscope_app.engine.work import Work

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

IDLE_STEPS_S = 15 * 60  # a run in steps ends by itself after this long without a step
NO_MEMORY = "The models do not fit into the memory that is free; choose smaller or quantised ones, or another dtype."
IN_TURNS = (
    "Other visitors and this run take turns. Its times count only its own work; after a turn of theirs a round may be "
    "slower."
)


def main(pipe: Connection, load: LoadSettings, beats: Beats) -> None:
    """Runs in the engine process until the other end of the pipe is closed."""
    with suppress(EOFError, OSError, KeyboardInterrupt, SystemExit):  # the server has ended
        worker = _Worker(pipe, load, beats)
        try:
            worker.serve()
        finally:
            worker.close()


@dataclass(eq=False)
class _Running:
    """A job that is here. `steps`: rounds that it may still decode; None for one that is not in steps."""

    job: jobs.Job
    asker: jobs.Asker
    work: Work
    steps: int | None
    touched: float
    state: jobs.State = "queued"
    noted: bool = False  # that it takes turns

    @property
    def ready(self) -> bool:
        return self.steps is None or self.steps > 0 or self.work.stopping

    @property
    def begun(self) -> bool:
        return self.state != "queued"

    @property
    def measures(self) -> bool:
        return self.state == "solo" or not self.job.is_run


class _Worker:
    def __init__(self, pipe: Connection, load: LoadSettings, beats: Beats) -> None:
        self._pipe, self._beats = pipe, beats
        self._running: dict[str, _Running] = {}  # in order of arrival
        self._turns = Turns[_Running]()
        self._latest: _Running | None = None  # whose turn it was
        self._trimmer = Trimmer()
        self._engine: DecodingEngine | None = None
        self._idle: Steps[Progress, None] | None = None  # measures when nothing else is to do
        self._status = EngineStatus()  # of the engine that is loaded
        self._threads = 1  # of its forwards
        self._load(load)

    def _load(self, load: LoadSettings) -> None:
        with self._beats.unwatched():
            self._load_models(load)
        if self._engine is not None:
            self._beats.watch([model.pulse for model in self._engine.models])

    def _load_models(self, load: LoadSettings) -> None:
        began = time.monotonic()
        try:
            with watched_by(lambda at: self._say_loading(load, at)):
                engine, instead = self._opened(load)
            status = ready(engine, time.monotonic() - began, instead=instead)
            status = replace(status, source=source(load, instead))
        except DraftscopeError as error:
            self._not_loaded(str(error))
            return
        except Exception as error:  # a sentence on the page is worth more than a silent process
            if memory_ran_out(error):
                self._not_loaded(NO_MEMORY)
                return
            traceback.print_exc()
            self._not_loaded(f"The models could not be loaded ({type(error).__name__}: {error}).")
            return
        import torch

        self._engine, self._threads, self._status = engine, torch.get_num_threads(), status
        self._idle = None
        self._pipe.send(status)

    def _opened(self, load: LoadSettings) -> tuple[DecodingEngine, str]:
        """The first models, or others in place of those that are loaded."""
        tell(Stage.START)
        beforehand.begin(opens(load))
        if self._engine is None:
            return opened(load)
        import draftscope

        return draftscope.load(**asdict(load)), ""

    def _say_loading(self, load: LoadSettings, at: Progress) -> None:
        with suppress(OSError):  # the server has ended: the main thread sees that too
            self._pipe.send(EngineStatus("loading", loading(load, at)))

    def _not_loaded(self, sentence: str) -> None:
        """The models that were loaded before, if any, stay."""
        if self._engine is None:
            self._pipe.send(EngineStatus("failed", sentence))
            return
        import torch

        torch.set_num_threads(self._threads)
        self._pipe.send(replace(self._status, refused=sentence))

    def serve(self) -> None:
        while True:
            running = self._turns.next(self._running.values())
            rests = self._rests(running is None)
            self._read_commands(0.0 if running is not None or not rests else 30.0 if self._running else None)
            self._end_forgotten()
            if running is not None and running.job.id in self._running:
                self._note_turns(running)
                self._advance(running)

    def _rests(self, idle: bool) -> bool:
        """Where no run goes on: one more step of measuring what runs have presumed. True once nothing is left of it."""
        if not idle or self._engine is None:
            return True
        self._idle = self._idle or self._engine.measuring_presumed()
        try:
            next(self._idle)
        except (StopIteration, DraftscopeError):
            self._idle = None
            return True
        return False

    def close(self) -> None:
        """Ends what goes on: a command that runs in a process of its own would outlive this one."""
        for running in self._running.values():
            running.work.end()

    # Commands.

    def _read_commands(self, patience: float | None = 0.0) -> None:
        """Obeys every command that has arrived; waits `patience` seconds for the first (None: without end)."""
        self._beats.move()
        with self._beats.unwatched() if patience != 0.0 else nullcontext():
            if not self._pipe.poll(patience):
                return
        while True:
            self._obey(self._pipe.recv())
            if not self._pipe.poll(0):
                return

    def _obey(self, command: jobs.Command) -> None:
        match command:
            case jobs.Quit():
                raise SystemExit  # no error of a job, wherever the command was read
            case jobs.Start(job, asker):
                self._begin(job, asker)
            case jobs.Change(load):
                self._load(load)
            case jobs.Stop(id) if id in self._running:
                running = self._running[id]
                running.work.stopping = True
                if not running.begun:
                    self._end(running, Update(id, state="done"))
            case jobs.Step(id) if id in self._running and self._running[id].steps is not None:
                running = self._running[id]
                running.steps = (running.steps or 0) + 1
                running.touched = time.monotonic()

    def _begin(self, job: jobs.Job, asker: jobs.Asker) -> None:
        if self._engine is None:
            sentence = "No models are loaded, so nothing can run; see the message about loading."
            self._pipe.send(Update(job.id, state="done", note=sentence))
            return
        steps = job.steps if isinstance(job, RunJob) else None
        work = Work(self._engine, job, self._read_commands)
        self._running[job.id] = _Running(job, asker, work, steps, time.monotonic())

    # Whose turn it is.

    def _note_turns(self, running: _Running) -> None:
        """Tells a visitor whose job has begun, and goes on while this one does."""
        latest, self._latest = self._latest, running
        if latest is None or latest is running or latest.noted or not (latest.begun and latest.ready):
            return
        if latest.state != "done" and latest.asker != running.asker:
            latest.noted = True
            self._pipe.send(Update(latest.job.id, note=IN_TURNS))

    def _end_forgotten(self) -> None:
        for running in self._running.values():
            if not running.ready and time.monotonic() - running.touched > IDLE_STEPS_S:
                running.work.stopping = True

    # One step further.

    def _advance(self, running: _Running) -> None:
        if running.state == "queued" or (running.state == "stepping" and running.ready):
            running.state = "running"
            self._pipe.send(Update(running.job.id, state="running"))
        update = running.work.advance()
        if update is None:
            return
        if update.state == "stepping":
            running.steps = (running.steps or 0) - 1
            if running.steps > 0:
                update = replace(update, state=None)
        if update.state == "done":
            self._end(running, update)
            return
        running.state = update.state or running.state
        self._pipe.send(update)

    def _end(self, running: _Running, update: Update) -> None:
        del self._running[running.job.id]
        running.state = "done"
        self._pipe.send(update)
        running.work.end()
        self._trimmer.trim()
