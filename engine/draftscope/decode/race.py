"""A race: lanes take turns round by round, and the lane whose own clock is furthest behind goes next.

A lane's clock counts only its own device-synchronised work, so no lane waits for another on it. The race is one
measurement; the headline speedup is another: `solo_runs`, whole runs in turn, of which the median counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent, SoloRuns

if TYPE_CHECKING:
    from draftscope.decode.lab import Lab
    from draftscope.decode.run import Run


def never() -> bool:
    return False


def race(runs: Sequence[Run], cancelled: Callable[[], bool] = never) -> Iterator[AnyEvent]:
    """The events of all lanes. `cancelled` is called before every round; cancelled lanes still end with a `RunEnd`."""
    streams = {index: run.events() for index, run in enumerate(runs)}
    while streams:
        behind = min(streams, key=lambda index: (runs[index].clock_ms, index))
        if cancelled():
            for index in streams:
                yield runs[index].cancel()
            return
        event = next(streams[behind], None)
        if event is None:
            del streams[behind]
        else:
            yield event


def solo_runs(
    lab: Lab,
    prompt: str,
    lanes: Mapping[str, Settings],
    run: str = "run",
    repeats: int = 3,
    cancelled: Callable[[], bool] = never,
) -> Iterator[SoloRuns]:
    """Unrecorded whole runs of each lane alone, in the order A B A B. Yields a lane's times so far after each run."""
    seconds: dict[str, list[float]] = {lane: [] for lane in lanes}
    for _ in range(repeats):
        for lane, settings in lanes.items():
            alone = lab.session(prompt, settings, run=run, lane=lane, record=False)
            for _ in alone.steps():
                if cancelled():
                    return
            seconds[lane].append(alone.clock_ms / 1e3)
            yield SoloRuns(run=run, lane=lane, tokens=len(alone.token_ids), seconds=list(seconds[lane]))
