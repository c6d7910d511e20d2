"""The core's job: a race of lanes, and whole runs of each after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from draftscope.base.steps import Steps
from draftscope.decode.fork import ForkPoint
from draftscope_app.engine.jobs import Job, Said, Watch

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine


class RunJob(Job):
    """A race of the lanes, then whole solo runs of each. A fork has one lane, and its events the name of the run
    that it leaves. It never waits for costs to be measured: the worker measures them when nothing else is to do."""

    is_run: ClassVar[bool] = True
    keeps_last: ClassVar[bool] = False
    kind: Literal["run"] = "run"
    steps: int | None = None  # rounds that may be decoded before a `Step`; None: all
    solo_repeats: int = 0
    fork_point: ForkPoint | None = None

    @property
    def repeats_of_lanes(self) -> int:
        return 1 + self.solo_repeats

    def work(self, engine: DecodingEngine, _: Watch) -> Steps[Said, None]:
        from draftscope.decode.lane import Lane
        from draftscope.decode.race import race, solo_runs, verify_costs
        from draftscope.measure.ties import parted

        run = (self.fork_point and self.fork_point.run) or self.id
        lanes = {name: Lane.of(engine, settings) for name, settings in self.lanes.items()}
        runs = []
        for name, lane in lanes.items():
            leaves = self.fork_point
            opening = engine.opening(self.prompt, lane, run=run, lane=name, fork_point=leaves, at_once=True)
            runs.append((yield from opening))
        whole = yield from race(runs)
        if self.fork_point is None:
            yield from parted(engine, self.prompt, lanes, dict(zip(lanes, runs, strict=True)), run)
        if self.solo_repeats and whole:
            yield "solo"
            yield from solo_runs(engine, self.prompt, lanes, run, self.solo_repeats, at_once=True)
            yield from verify_costs(engine, lanes, run)
