"""A job that goes on step by step, and what each step says to the page."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from draftscope.base.errors import DraftscopeError, memory_ran_out
from draftscope.base.progress import Progress
from draftscope.base.steps import Cancelled, Steps
from draftscope.trace.events import Round
from draftscope_app.engine.jobs import Job, Said, Update, Watch
from draftscope_app.engine.log import places_of
from draftscope_app.engine.run_job import RunJob

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

NO_MEMORY = (
    "The engine's memory ran out, so this run ended; shorten the prompt, write fewer tokens, draft smaller trees, or "
    "load smaller models."
)


class Work:
    """A job that goes on step by step. Whoever drives it sets `stopping` to end it."""

    def __init__(self, engine: DecodingEngine, job: Job, look: Watch = lambda: None) -> None:
        """`look` is called now and then within a step that takes long, and may set `stopping`."""
        self.job, self.stopping = job, False
        self._look, self._thrown, self._words = look, False, ""
        self._steps = steps_of(engine, job, self._heed)

    def _heed(self) -> None:
        self._look()
        if self.stopping:
            raise Cancelled

    def advance(self) -> Update | None:
        """One step further: what it says, if anything. The state "done" is the last."""
        try:
            said = self._next()
        except (StopIteration, Cancelled):
            return Update(self.job.id, state="done")
        except Exception as error:
            return Update(self.job.id, state="done", note=sentence_of(error))
        before, self._words = self._words, said.words if isinstance(said, Progress) else ""
        if said is None or isinstance(said, Progress):
            return None if self._words == before else Update(self.job.id, progress=said)
        if isinstance(said, str):
            return Update(self.job.id, state=said)
        in_steps = isinstance(self.job, RunJob) and self.job.steps is not None
        pays = in_steps and isinstance(said, Round) and said.lane == list(self.job.lanes)[-1]
        return Update(self.job.id, said.model_dump_json(exclude_none=True), "stepping" if pays else None)

    def end(self) -> None:
        """Its caches are free."""
        self._steps.close()

    def _next(self) -> Said:
        if self.stopping and not self._thrown:
            self._thrown = True
            return self._steps.throw(Cancelled())
        return next(self._steps)


def steps_of(engine: DecodingEngine, job: Job, watch: Watch = lambda: None) -> Steps[Said, None]:
    """Every step of a job. Raises `DraftscopeError` for one that cannot be decoded."""
    from draftscope.models.files.tokenizer_file import without_panic

    with without_panic(engine.target.name):
        yield from job.work(engine, watch)


def sentence_of(error: Exception) -> str:
    """Why a run ended, for the page. An internal error is also printed, with its place."""
    if isinstance(error, DraftscopeError):
        return str(error)
    if memory_ran_out(error):
        return NO_MEMORY
    print(f"internal error: {type(error).__name__} at {', '.join(places_of(error))}", file=sys.stderr)
    return f"The engine stopped this run because of an internal error ({type(error).__name__}: {error})."
