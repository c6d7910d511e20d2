"""A race: lanes take turns round by round, and the lane whose own clock is furthest behind goes next.

A lane's clock counts only its own device-synchronised work, so no lane waits for another on it. The race is one
measurement; `solo_runs`, unrecorded whole runs in turn, are others of the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from draftscope.base.cores import OtherCores
from draftscope.base.costs import PLAIN
from draftscope.base.steps import Cancelled, Steps, mapped_to
from draftscope.trace.events import AnyEvent, SoloRuns, VerifyCosts

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine
    from draftscope.decode.lane import Lane
    from draftscope.decode.prompt import AnyPrompt
    from draftscope.decode.run import Run


def race(runs: Sequence[Run]) -> Steps[AnyEvent, bool]:
    """The events of all lanes, and whether it went to its end: `Cancelled` may be thrown in after any of them, and then
    every lane that goes on still ends with a `RunEnd`, none without its `RunStart`."""
    streams = {index: run.events() for index, run in enumerate(runs)}
    begun: set[int] = set()
    try:
        for index, stream in streams.items():  # whoever watches knows all lanes before the first of them works
            begun.add(index)
            yield next(stream)
        while streams:
            behind = min(streams, key=lambda index: (runs[index].clock_ms, index))
            event = next(streams[behind], None)
            if event is None:
                del streams[behind]
            else:
                yield event
    except Cancelled:
        for index in streams:
            if index not in begun:
                yield next(streams[index])
            yield runs[index].cancel()
        return False
    return True


def solo_runs(
    engine: DecodingEngine,
    prompt: AnyPrompt,
    lanes: Mapping[str, Lane],
    run: str = "run",
    repeats: int = 3,
    at_once: bool = False,
) -> Iterator[SoloRuns | None]:
    """Unrecorded whole runs of each lane alone, in the order A B A B. Yields a lane's times so far after each run, and
    None after each round. `at_once` as in `DecodingEngine.opening`."""
    seconds: dict[str, list[float]] = {lane: [] for lane in lanes}
    others: dict[str, list[float]] = {lane: [] for lane in lanes}
    for _ in range(repeats):
        for lane, chosen in lanes.items():
            opening = engine.opening(prompt, chosen, run=run, lane=lane, record=False, at_once=at_once)
            solo = yield from mapped_to(opening, None)
            cores = OtherCores()
            for _ in solo.steps():
                yield None
            seconds[lane].append(solo.clock_ms / 1e3)
            others[lane].append(cores.lap())
            yield SoloRuns(
                run=run,
                lane=lane,
                tokens=len(solo.token_ids),
                seconds=list(seconds[lane]),
                other_cores=list(others[lane]),
            )


def verify_costs(engine: DecodingEngine, lanes: Mapping[str, Lane], run: str = "run") -> Iterator[VerifyCosts | None]:
    """v by rows on this machine, for the lane that drafts; nothing if none does. None after each forward that is
    measured for it."""
    lane = next((name for name, chosen in lanes.items() if chosen.info.name != PLAIN), None)
    if lane is None:
        return
    curve = yield from engine.verify_curve()
    yield VerifyCosts(run=run, lane=lane, **curve.model_dump())
