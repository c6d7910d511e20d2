"""Servers of other programs, asked by the engine process: a race, an audit, a load. Runs where the models are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from draftscope.base.steps import Cancelled, Steps, said
from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent, Record
from draftscope_app.engine.messages import HERE, Job

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

SILENT_S = 60.0  # until a server is given up
SECONDS = 300.0  # of an audit's sampling, at most
POINT_S = 5.0  # of each point of a load


def of_servers(
    engine: DecodingEngine, job: Job, lanes: Mapping[str, Settings], cancelled: Callable[[], bool]
) -> Iterator[AnyEvent | Record]:
    """Every event of a job with servers. Raises `DraftscopeError` where none of them can be asked."""
    yield from said(_stopped(_steps(engine, job, lanes), cancelled))


def _steps(engine: DecodingEngine, job: Job, lanes: Mapping[str, Settings]) -> Steps[AnyEvent | Record | None, None]:
    from draftscope.servers.audit.asked import Plan
    from draftscope.servers.field import Field, request_of
    from draftscope.servers.load import LoadPlan
    from draftscope.servers.race import Race
    from draftscope.servers.wire import WireLimits
    from draftscope.verify.sampling import Sampling

    urls = {name: url for name, url in zip(lanes, job.servers, strict=True) if url != HERE}
    here = {name: settings for name, settings in lanes.items() if name not in urls}
    settings = next(iter(lanes.values()))
    by_weights = engine if not job.audits or len(lanes) == 1 else None
    with Field.open(urls, by_weights, here, limits=WireLimits(silent=SILENT_S), draft=engine.draft) as opened:
        field = opened.with_engine_of_servers()
        if job.audits:
            yield from field.audit(Plan(Sampling.of(settings), samples=job.audits, seconds=SECONDS, seed=settings.seed))
            return
        prompts, request = [field.prompt(job.prompt, settings)], request_of(settings)
        if job.loads:
            yield from field.load(LoadPlan(prompts, request, job.loads, POINT_S, jitter=field.jitter))
        else:
            yield from field.race(Race(prompts, request, job.repeats, field.jitter), job.run)


def _stopped(
    steps: Steps[AnyEvent | Record | None, None], cancelled: Callable[[], bool]
) -> Iterator[AnyEvent | Record | None]:
    """The same; once it is `cancelled`, only what they still say."""
    for step in steps:
        yield step
        if cancelled():
            try:
                yield steps.throw(Cancelled())
            except (Cancelled, StopIteration):
                return
            yield from steps
            return
