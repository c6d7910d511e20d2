"""What every engine offers to the page, the API and the health checks, whichever process it decodes in."""

from __future__ import annotations

from typing import Protocol

from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine.handle import RunHandle
from draftscope_app.engine.messages import Command, EngineStatus, Job
from draftscope_app.engine.notice import Notice


class Engine(Protocol):
    """`EngineProcess`, or `ZeroEngine` on ZeroGPU."""

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
        """Given whenever `status`, the number of runs, or anything about a run has changed."""

    def run(self, job: Job) -> RunHandle:
        """Takes a job into the queue."""

    def send(self, command: Command) -> None:
        """Passes a command on; never waits for the engine."""

    def change(self, load: LoadSettings) -> None:
        """Loads other models in place of those that are loaded; `status` says what came of it.

        Raises `DraftscopeError` where it cannot be done now.
        """

    def place(self, handle: RunHandle) -> int:
        """How many turns come before this run's first one."""

    def __len__(self) -> int:
        """Runs that are decoded or wait."""

    def close(self) -> None: ...
