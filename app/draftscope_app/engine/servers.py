"""Servers of other programs, asked by the engine process: a race, an audit, a load. Runs where the models are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from draftscope.base.steps import Steps
from draftscope.trace.events import AnyEvent, Record
from draftscope_app.engine.jobs import AuditJob, InsideJob, LoadJob, RaceJob

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

SILENT_S = 60.0  # until a server is given up
SECONDS = 300.0  # of an audit's sampling, at most
POINT_S = 5.0  # of each point of a load


def steps(
    engine: DecodingEngine, job: RaceJob | InsideJob | AuditJob | LoadJob
) -> Steps[AnyEvent | Record | None, None]:
    """Every step of a job with servers. Raises `DraftscopeError` where none of them can be asked."""
    from draftscope.servers.audit.asked import Plan
    from draftscope.servers.field import Field, request_of
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
            yield from field.race(Race(prompts, request, job.repeats, field.jitter), job.id)
