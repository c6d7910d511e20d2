"""The race: lanes interleaved a round at a time, always advancing the lane whose own clock is behind.

A lane's clock counts only its own device-synchronised work, so lanes do not pay for each other. The race is one number;
the headline speedup is another: `solo_runs`, whole runs one after the other, interleaved, medians.
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
    """Events of all lanes. `cancelled` is asked before every round; every lane still ends with its `RunEnd`."""
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
    """Whole runs of each lane alone, A B A B, recording off; yields each lane's times so far after each of its runs."""
    seconds: dict[str, list[float]] = {lane: [] for lane in lanes}
    for _ in range(repeats):
        for lane, settings in lanes.items():
            alone = lab.session(prompt, settings, run=run, lane=lane, record=False)
            for _ in alone.steps():
                if cancelled():
                    return
            seconds[lane].append(alone.clock_ms / 1e3)
            yield SoloRuns(run=run, lane=lane, tokens=len(alone.token_ids), seconds=list(seconds[lane]))
