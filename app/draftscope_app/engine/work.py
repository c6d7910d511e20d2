"""The work of each kind of job, as a generator that yields at least once a round. Runs where the models are.

It yields an event, a state that it enters, or None where it may only be stopped or wait for others. `Cancelled` is
thrown in to stop it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from draftscope.base.errors import DraftscopeError, memory_ran_out
from draftscope.base.progress import Progress
from draftscope.base.steps import Cancelled, Steps
from draftscope.trace.events import AnyEvent, Record, Round
from draftscope_app.engine.commands import experimented
from draftscope_app.engine.jobs import (
    AdviseJob,
    AnyJob,
    AuditJob,
    CheckJob,
    CompareJob,
    ExperimentJob,
    InsideJob,
    LoadJob,
    RaceJob,
    RunJob,
    State,
    Update,
)
from draftscope_app.engine.log import places_of

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

# of servers of other programs
SILENT_S = 60.0  # until a server is given up
SECONDS = 300.0  # of an audit's sampling, at most
POINT_S = 5.0  # of each point of a load

NO_MEMORY = (
    "The engine's memory ran out, so this run ended; shorten the prompt, write fewer tokens, draft smaller trees, or "
    "load smaller models."
)

Said = AnyEvent | Record | State | Progress | None
Watch = Callable[[], None]  # called within what is timed and cannot yield; may raise `Cancelled`


class Work:
    """A job that goes on step by step. Whoever drives it sets `stopping` to end it."""

    def __init__(self, engine: DecodingEngine, job: AnyJob, look: Watch = lambda: None) -> None:
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


def steps_of(engine: DecodingEngine, job: AnyJob, watch: Watch = lambda: None) -> Steps[Said, None]:
    """Every step of a job. Raises `DraftscopeError` for one that cannot be decoded."""
    from draftscope.models.files.tokenizer_file import without_panic

    with without_panic(engine.target.name):
        yield from _steps(engine, job, watch)


def _steps(engine: DecodingEngine, job: AnyJob, watch: Watch) -> Steps[Said, None]:
    from draftscope.advise.advise import advised
    from draftscope.claims.experiments import named
    from draftscope.measure.check import checked
    from draftscope.measure.compare import compare

    match job:
        case RunJob():
            yield from _run(engine, job)
        case CompareJob():
            yield from compare(engine, job.prompt, job.lanes, job.repeats)
        case CheckJob():
            yield from checked(engine, next(iter(job.lanes.values())), job.samples)
        case AdviseJob():
            yield from advised(engine, job.wish, watch)
        case ExperimentJob():
            yield from experimented(named(job.name))
        case RaceJob() | InsideJob() | AuditJob() | LoadJob():
            yield from _ask_servers(engine, job)


def _run(engine: DecodingEngine, job: RunJob) -> Steps[Said, None]:
    from draftscope.decode.race import race, solo_runs, verify_costs
    from draftscope.measure.ties import parted

    run, lanes = (job.fork_point and job.fork_point.run) or job.id, job.lanes
    runs = []
    for name, settings in lanes.items():
        opening = engine.opening(job.prompt, settings, run=run, lane=name, fork_point=job.fork_point)
        runs.append((yield from opening))
    whole = yield from race(runs)
    if job.fork_point is None:
        yield from parted(engine, job.prompt, lanes, dict(zip(lanes, runs, strict=True)), run)
    if job.solo_repeats and whole:
        yield "solo"
        yield from solo_runs(engine, job.prompt, lanes, run, job.solo_repeats)
        yield from verify_costs(engine, lanes, run)


def _ask_servers(engine: DecodingEngine, job: RaceJob | InsideJob | AuditJob | LoadJob) -> Steps[Said, None]:
    """Every step of a job with servers. Raises `DraftscopeError` where none of them can be asked."""
    from draftscope.servers.audit.plan import Plan
    from draftscope.servers.field import Field, request_of
    from draftscope.servers.inside.live import new_name
    from draftscope.servers.load import LoadPlan
    from draftscope.servers.race import Race
    from draftscope.servers.wire import WireLimits
    from draftscope.verify.sampling import Sampling

    here = {name: settings for name, settings in job.lanes.items() if name not in job.urls}
    settings = next(iter(job.lanes.values()))
    by_weights = engine if not isinstance(job, AuditJob) or len(job.lanes) == 1 else None
    with Field.open(job.urls, by_weights, here, limits=WireLimits(silent=SILENT_S), draft=engine.draft) as opened:
        field = opened.with_engine_of_servers()
        if isinstance(job, AuditJob):
            plan = Plan(Sampling.of(settings), samples=job.samples, seconds=SECONDS, seed=settings.seed)
            yield from field.audit(plan)
            return
        if isinstance(job, InsideJob) and job.request:
            yield from field.opened(job.request, job.id)
            return
        prompts, request = [field.prompt(job.prompt, settings)], request_of(settings)
        if isinstance(job, LoadJob):
            yield from field.load(LoadPlan(prompts, request, job.points, POINT_S, jitter=field.jitter))
        elif isinstance(job, InsideJob):
            yield from field.inside(prompts[0], request, job.id)
        else:
            recorded = {name: new_name() for name in job.inside}
            yield from field.race(Race(prompts, request, job.repeats, field.jitter, recorded=recorded), job.id)


def sentence_of(error: Exception) -> str:
    """Why a run ended, for the page. An internal error is also printed, with its place."""
    if isinstance(error, DraftscopeError):
        return str(error)
    if memory_ran_out(error):
        return NO_MEMORY
    print(f"internal error: {type(error).__name__} at {', '.join(places_of(error))}", file=sys.stderr)
    return f"The engine stopped this run because of an internal error ({type(error).__name__}: {error})."
