"""The events of a job: a race, its solo runs, a comparison, a check, an advice, servers. Runs where the models are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import Cancelled, stoppable
from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent, Record
from draftscope_app.engine.log import places_of
from draftscope_app.engine.messages import Job
from draftscope_app.engine.played_servers import of_servers

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

Event = AnyEvent | Record  # of a trace, or of a comparison, a check or an advice


def events_of(
    engine: DecodingEngine, job: Job, cancelled: Callable[[], bool], alone: Callable[[], None]
) -> Iterator[Event | None]:
    """Every event of a job, in order, and None at other moments at which it may be stopped or wait. Asks `cancelled`
    once a round; calls `alone` before events that should wait for other visitors' races. Raises `DraftscopeError` for a
    job that cannot be decoded.
    """
    from draftscope.models.files.tokenizer_file import without_panic

    with suppress(Cancelled), without_panic(engine.target.name):
        yield from _events_of(engine, job, cancelled, alone)


def _events_of(
    engine: DecodingEngine, job: Job, cancelled: Callable[[], bool], alone: Callable[[], None]
) -> Iterator[Event | None]:
    from draftscope.advise.events import advised
    from draftscope.decode.race import race, solo_runs, verify_costs
    from draftscope.measure.compare import compare
    from draftscope.measure.ties import parted

    lanes = {name: Settings.of(**values) for name, values in job.lanes}
    if not job.is_run:
        alone()
    if job.advises is not None:
        yield from advised(engine, job.advises, cancelled)
        return
    if job.servers:
        yield from of_servers(engine, job, lanes, cancelled)
        return
    if job.compares:
        yield from compare(engine, job.prompt, lanes, job.compares, cancelled)
        return
    if job.checks:
        yield from _checked(engine, next(iter(lanes.values())), job.checks, cancelled)
        return
    run = job.joins or job.run
    runs = []
    for name, settings in lanes.items():
        opening = engine.opening(job.prompt, settings, run=run, lane=name, fork_point=job.fork_point)
        runs.append((yield from stoppable(opening, cancelled)))
    yield from race(runs, cancelled)
    if job.fork_point is None:
        yield from parted(engine, job.prompt, lanes, dict(zip(lanes, runs, strict=True)), run)
    if job.solo_repeats and not cancelled():
        alone()
        yield from solo_runs(engine, job.prompt, lanes, job.run, job.solo_repeats, cancelled)
        if not cancelled():
            yield from verify_costs(engine, lanes, job.run, cancelled)


def sentence_of(error: Exception) -> str:
    """Why a run ended, for the page. An internal error is also printed, with its place."""
    if isinstance(error, DraftscopeError):
        return str(error)
    print(f"internal error: {type(error).__name__} at {', '.join(places_of(error))}", file=sys.stderr)
    return f"The engine stopped this run because of an internal error ({type(error).__name__}: {error})."


def _checked(
    engine: DecodingEngine, settings: Settings, samples: int, cancelled: Callable[[], bool]
) -> Iterator[Record | None]:
    """The events of a check. Raises `Cancelled`."""
    from draftscope.measure.check import checked

    def watch() -> None:
        if cancelled():
            raise Cancelled

    yield from checked(engine, settings, samples, watch)
