"""Measurements that no door has: what the core does with any job, whatever its kind."""

from __future__ import annotations

from time import sleep
from typing import ClassVar, Literal

from draftscope.base.steps import Steps
from draftscope.decode.engine import DecodingEngine
from draftscope.trace.events import Record
from draftscope_app.engine.jobs import Job, Said, Watch


class Number(Record):
    number: int


class CountingJob(Job):
    """Counts, a number after ten steps: each of its events says something else."""

    keeps_last: ClassVar[bool] = False
    kind: Literal["counting"] = "counting"
    most: int = 3

    def work(self, engine: DecodingEngine, _: Watch) -> Steps[Said, None]:
        for number in range(self.most):
            for _step in range(10):
                sleep(0.001)
                yield None
            yield Number(number=number)


class LatestJob(Job):
    """Its latest event stands for all before it."""

    kind: Literal["latest"] = "latest"
