"""Who may start a run: a bound on runs at once, and none once the server is ending."""

from __future__ import annotations

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.config import Limits
from draftscope_app.engine.messages import Job
from draftscope_app.engine.process import EngineProcess, RunHandle
from draftscope_app.engine.zero import ZeroEngine


class Admission:
    """Stands between visitors and the engine; the page and the API both go through it."""

    def __init__(self, engine: EngineProcess | ZeroEngine, limits: Limits) -> None:
        self.engine, self.limits = engine, limits
        self._ending = False

    def admit(self, job: Job, instead_of: RunHandle | None = None) -> RunHandle:
        """Takes a job into the queue; a visitor's own older run, which it replaces, does not count.

        Raises `DraftscopeError` where the queue is full or the server is ending.
        """
        if self._ending:
            raise DraftscopeError("The server is ending; run again in a minute.")
        others = len(self.engine) - (instead_of is not None)
        if others >= self.limits.most_runs:
            raise DraftscopeError(
                f"{others} runs are decoded or waiting here, and this server takes no more; run again in a moment."
            )
        if instead_of is not None:
            instead_of.stop()
        return self.engine.run(job)

    def end(self) -> None:
        """No run is taken from now on; those that are here go on."""
        self._ending = True

    @property
    def ready(self) -> bool:
        """A run asked for now would be decoded."""
        return self.engine.status.phase == "ready" and not self._ending
