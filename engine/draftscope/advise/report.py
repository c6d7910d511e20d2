"""The result as plain values, for sentences, JSON and a page; and what the runs say until then."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from draftscope.advise.advice_verdict import AtTemperature, Measured, Verdict
from draftscope.advise.limits import Limits
from draftscope.advise.question import Question
from draftscope.advise.servers import Ready
from draftscope.advise.speed_model import Predicted
from draftscope.advise.surface import Surface
from draftscope.measure.bench.statistics import Interval
from draftscope.servers.programs.program import ScheduleRange
from draftscope.trace.events import Record


@dataclass(frozen=True)
class AdviceReport:
    """Everything that was found. `predicted` is the best candidate of all sizes first; `measured` is empty where the
    values were typed in."""

    question: Question
    verdict: Verdict
    chosen: Predicted
    sentences: list[str]  # the verdict first
    predicted: list[Predicted]
    measured: list[Measured]
    at_temperatures: list[AtTemperature]  # others than the question's, as far as there was time left
    limits: Limits
    alpha: list[Interval]  # the chosen chain's acceptance by position, given that all before was accepted
    schedule: list[ScheduleRange]  # the chosen drafter's gamma by concurrency
    ready: list[Ready]
    surface: Surface | None = None  # what a map with "what if" is drawn from
    notes: list[str] = field(default_factory=list)
    machine: dict[str, str | int] = field(default_factory=dict)
    costs_s: float | None = None  # to measure this machine's costs, about; None where they are known

    def as_json(self) -> str:
        """One object; every candidate also has its name."""
        values = asdict(self)
        every: list[Predicted | Measured] = [*self.predicted, *self.measured, self.chosen]
        names = [entry.candidate.name for entry in every]
        for row, name in zip([*values["predicted"], *values["measured"], values["chosen"]], names, strict=True):
            row["name"] = name
        return json.dumps(values, indent=1)


class Advised(Record):
    """What the runs say so far, and the verdict by that; the last one has the report, as `draftscope advise --json`
    prints it."""

    kind: Literal["advised"] = "advised"
    so_far: str = ""  # the candidate, its ratio and interval
    ratio: dict[str, float] | None = None  # the same as numbers: median, low and high
    verdict: Verdict | None = None
    report: dict[str, Any] | None = None
