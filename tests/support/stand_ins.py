"""Small stand-ins for the engine process: no models are loaded, and no torch is imported to play one."""

from __future__ import annotations

import os
import threading
from multiprocessing.connection import Connection

from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine.messages import Entered, LoadFailed, Loading, Ready, Start


def dies_on_the_first_run(pipe: Connection, load: LoadSettings) -> None:
    pipe.send(Ready("stand-in", ()))
    while isinstance(command := pipe.recv(), Start):
        pipe.send(Entered(command.job.run, "running"))
        os._exit(7)


def never_comes_up(pipe: Connection, load: LoadSettings) -> None:
    pipe.send(Loading("about to fail"))
    os._exit(3)


def never_listens(pipe: Connection, load: LoadSettings) -> None:
    pipe.send(Ready("stand-in", ()))
    threading.Event().wait()


def does_nothing(pipe: Connection, load: LoadSettings) -> None:
    pipe.send(Ready("stand-in", ()))
    pipe.recv()


def cannot_load(pipe: Connection, load: LoadSettings) -> None:
    pipe.send(LoadFailed(f"'{load.target}' cannot be loaded."))
    pipe.recv()
