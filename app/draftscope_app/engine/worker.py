"""The engine process's loop: it loads the models once and advances one run at a time, round by round.

Whose turn it is, `turns.py` says. A run in steps waits without using the processor while others go on. Commands are
read between rounds. `beats.py` tells the server that the loop goes round.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.trace.events import Round, RunEnd
from draftscope_app.engine import messages
from draftscope_app.engine.beats import Beats, Silent
from draftscope_app.engine.memory import Trimmer
from draftscope_app.engine.opening import loading, opened
from draftscope_app.engine.play import Event, events_of, sentence_of
from draftscope_app.engine.status import chats, choices, introduced
from draftscope_app.engine.turns import Turns

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

ALL = 10**9  # rounds: more than a run has
IDLE_STEPS_S = 15 * 60  # a run in steps ends by itself after this long without a step
IN_TURNS = (
    "Other visitors and this run take turns. Its times count only its own work; after a turn of theirs a round may be "
    "slower."
)


def main(pipe: Connection, load: LoadSettings, beats: Beats | None = None) -> None:
    """Runs in the engine process until the other end of the pipe is closed."""
    with suppress(EOFError, OSError, KeyboardInterrupt, SystemExit):  # the server has ended
        _Worker(pipe, load, beats or Beats(Silent())).serve()


@dataclass(eq=False)
class _Running:
    """A run that is here. `steps`: rounds that it may still decode; None for a run that is not in steps."""

    job: messages.Job
    steps: int | None
    events: Iterator[Event | None]
    state: messages.State = "queued"
    stopped: bool = False
    touched: float = 0.0
    noted: bool = False  # that it takes turns

    @property
    def asker(self) -> messages.Asker:
        return self.job.asker

    @property
    def ready(self) -> bool:
        return self.steps is None or self.steps > 0 or self.stopped

    @property
    def begun(self) -> bool:
        return self.state != "queued"

    @property
    def measures(self) -> bool:
        return self.state == "solo" or not self.job.is_run


class _Worker:
    def __init__(self, pipe: Connection, load: LoadSettings, beats: Beats) -> None:
        self._pipe, self._beats = pipe, beats
        self._runs: dict[str, _Running] = {}  # in order of arrival
        self._turns = Turns[_Running]()
        self._latest: _Running | None = None  # whose turn it was
        self._trimmer = Trimmer()
        self._lab: DecodingEngine | None = None
        self._threads = 1  # of its forwards
        self._load(load)

    def _load(self, load: LoadSettings) -> None:
        with self._beats.unwatched():
            self._load_models(load)
        if self._lab is not None:
            self._beats.watch([model.pulse for model in self._lab.models])

    def _load_models(self, load: LoadSettings) -> None:
        began = time.monotonic()
        if self._lab is None:
            self._say(messages.Loading("The engine is starting: torch is being loaded."))
        try:
            import torch

            import draftscope

            self._say(messages.Loading(loading(load)))
            engine, instead = opened(load) if self._lab is None else (draftscope.load(**asdict(load)), "")
            drafters = choices(engine)
        except DraftscopeError as error:
            self._not_loaded(str(error))
            return
        except Exception as error:  # a sentence on the page is worth more than a silent process
            traceback.print_exc()
            self._not_loaded(f"The models could not be loaded ({type(error).__name__}: {error}).")
            return
        self._lab, self._threads = engine, torch.get_num_threads()
        self._say(
            messages.Ready(introduced(engine, time.monotonic() - began, instead=instead), drafters, chats(engine))
        )

    def _not_loaded(self, sentence: str) -> None:
        """The models that were loaded before, if any, stay."""
        if self._lab is None:
            self._say(messages.LoadFailed(sentence))
            return
        import torch

        torch.set_num_threads(self._threads)
        self._say(messages.ChangeFailed(sentence))

    def serve(self) -> None:
        while True:
            running = self._turns.next(self._runs.values())
            self._read_commands(0.0 if running is not None else 30.0 if self._runs else None)
            self._end_forgotten()
            if running is not None and running.job.run in self._runs:
                self._note_turns(running)
                self._advance(running)

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

    def _obey(self, command: messages.Command) -> None:
        if isinstance(command, messages.Quit):
            raise SystemExit  # no error of a run, wherever the command was read
        if isinstance(command, messages.Start):
            self._begin(command.job)
            return
        if isinstance(command, messages.Change):
            self._load(command.load)
            return
        running = self._runs.get(command.run)
        if running is None:
            return
        if isinstance(command, messages.Stop):
            running.stopped = True
            if running.state == "queued":  # nothing of it has been decoded
                self._drop(running)
        elif running.steps is not None:
            running.steps += 1
            running.touched = time.monotonic()

    def _begin(self, job: messages.Job) -> None:
        if self._lab is None:
            self._say(
                messages.Refused(job.run, "No models are loaded, so nothing can run; see the message about loading.")
            )
            self._say(messages.Entered(job.run, "done"))
            return
        running = _Running(job, job.steps, iter(()), touched=time.monotonic())
        running.events = self._play(running)
        self._runs[job.run] = running

    # Whose turn it is.

    def _note_turns(self, running: _Running) -> None:
        """Tells a visitor whose run has begun, and goes on while this one does."""
        latest, self._latest = self._latest, running
        if latest is None or latest is running or latest.noted or not (latest.begun and latest.ready):
            return
        if latest.state != "done" and latest.asker != running.asker:
            latest.noted = True
            self._say(messages.Noted(latest.job.run, IN_TURNS))

    def _end_forgotten(self) -> None:
        for running in self._runs.values():
            if not running.ready and time.monotonic() - running.touched > IDLE_STEPS_S:
                running.stopped = True

    # One event further.

    def _advance(self, running: _Running) -> None:
        job = running.job
        if running.state == "queued" or (running.state == "stepping" and running.ready):
            self._enter(running, "running")
        try:
            event = next(running.events)
        except StopIteration:
            self._drop(running)
            return
        except Exception as error:
            self._drop(running, sentence_of(error))
            return
        if event is None:
            return
        self._say(messages.Happened(job.run, event.model_dump_json(exclude_none=True)))
        if isinstance(event, Round) and event.lane == job.lanes[-1][0]:
            self._count_round(running)
        elif isinstance(event, RunEnd) and event.lane == job.lanes[-1][0]:
            running.steps = None if running.steps is None else ALL  # only the other lane is left

    def _count_round(self, running: _Running) -> None:
        if running.steps is None:
            return
        running.steps -= 1
        if running.steps == 0:
            self._enter(running, "stepping")

    def _play(self, running: _Running) -> Iterator[Event | None]:
        assert self._lab is not None

        def cancelled() -> bool:
            self._read_commands()
            return running.stopped

        return events_of(self._lab, running.job, cancelled, lambda: self._enter(running, "solo"))

    # Answers.

    def _enter(self, running: _Running, state: messages.State) -> None:
        if running.state != state:
            running.state = state
            self._say(messages.Entered(running.job.run, state))

    def _drop(self, running: _Running, sentence: str = "") -> None:
        self._runs.pop(running.job.run, None)
        if sentence:
            self._say(messages.Refused(running.job.run, sentence))
        self._enter(running, "done")
        running.events = iter(())  # its caches are free
        self._trimmer.run_is_over()

    def _say(self, message: messages.Message) -> None:
        self._pipe.send(message)
