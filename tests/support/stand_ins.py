"""Small stand-ins for the engine process: no models are loaded, and no torch is imported to play one."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine.beats import Beats
from draftscope_app.engine.jobs import Change, EngineStatus, Start, Update


def dies_on_the_first_run(pipe: Connection, load: LoadSettings, *_: object) -> None:
    pipe.send(EngineStatus("ready", "stand-in"))
    while isinstance(command := pipe.recv(), Start):
        pipe.send(Update(command.job.id, state="running"))
        os._exit(7)


def never_comes_up(pipe: Connection, load: LoadSettings, *_: object) -> None:
    pipe.send(EngineStatus("loading", "about to fail"))
    os._exit(3)


def never_listens(pipe: Connection, load: LoadSettings, *_: object) -> None:
    pipe.send(EngineStatus("ready", "stand-in"))
    threading.Event().wait()


def does_nothing(pipe: Connection, load: LoadSettings, *_: object) -> None:
    pipe.send(EngineStatus("ready", "stand-in"))
    pipe.recv()


def cannot_load(pipe: Connection, load: LoadSettings, *_: object) -> None:
    pipe.send(EngineStatus("failed", f"'{load.target}' cannot be loaded."))
    pipe.recv()


def decodes_for_ever(pipe: Connection, load: LoadSettings, beats: Beats) -> None:
    """Hears nothing that it is sent but the start of a run, and that run never ends."""
    pipe.send(EngineStatus("ready", "stand-in"))
    with beats.unwatched(), suppress(EOFError):
        while True:
            if isinstance(command := pipe.recv(), Start):
                pipe.send(Update(command.job.id, state="running"))


def dies_while_it_loads_others(pipe: Connection, load: LoadSettings, *_: object) -> None:
    pipe.send(EngineStatus("ready", "stand-in"))
    if isinstance(pipe.recv(), Change):
        pipe.send(EngineStatus("loading", "other models"))
        os._exit(9)


def is_caught_in_a_call(pipe: Connection, load: LoadSettings, beats: Beats) -> None:
    """Answers while it waits for a run; the run never ends, reads no command, and gets nowhere."""
    pipe.send(EngineStatus("ready", "stand-in"))
    with beats.unwatched():
        command = pipe.recv()
    assert isinstance(command, Start)
    pipe.send(Update(command.job.id, state="running"))
    while True:
        pass


def comes_up_the_sixth_time(pipe: Connection, load: LoadSettings, *_: object) -> None:
    """Counts its starts in the folder that is named as the target."""
    starts = Path(load.target or "")
    (starts / str(len(list(starts.iterdir())))).touch()
    if len(list(starts.iterdir())) < 6:
        os._exit(3)
    pipe.send(EngineStatus("ready", "stand-in"))
    pipe.recv()


def loads_slowly(pipe: Connection, load: LoadSettings, beats: Beats) -> None:
    """The engine process itself, with a loader that takes its time in each step and loads nothing."""
    from types import SimpleNamespace
    from typing import Any

    from draftscope.base import stages
    from draftscope_app.engine import worker

    def opened(_: LoadSettings) -> tuple[Any, str]:
        threading.Event().wait(1.0)  # so long that who watches sees the step before
        stages.tell(stages.Stage.FETCH, stages.megabytes(31_000_000, 93_000_000), 1 / 3)
        threading.Event().wait(2.5)  # says nothing meanwhile
        stages.tell(stages.Stage.CHECK)
        return SimpleNamespace(models=[]), ""

    stages.LONG_S = 0.0
    vars(worker)["opened"] = opened
    vars(worker)["ready"] = lambda *_, **__: EngineStatus("ready", "stand-in")
    worker.main(pipe, load, beats)
