"""The result as plain values, for sentences, JSON and a page; and how far it is until then."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

from draftscope.advise.limits import Limits
from draftscope.advise.model import Predicted
from draftscope.advise.question import Question
from draftscope.advise.servers import Ready
from draftscope.advise.surface import Surface
from draftscope.advise.verdict import AtTemperature, Measured, Verdict
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

    def as_json(self) -> str:
        """One object; every candidate also has its name."""
        values = asdict(self)
        every: list[Predicted | Measured] = [*self.predicted, *self.measured, self.chosen]
        names = [entry.candidate.name for entry in every]
        for row, name in zip([*values["predicted"], *values["measured"], values["chosen"]], names, strict=True):
            row["name"] = name
        return json.dumps(values, indent=1)


class Stage(StrEnum):
    """What is measured."""

    COSTS = "costs"
    ACCEPTANCE = "acceptance"
    PROOF = "proof"

    @property
    def words(self) -> str:
        return {
            Stage.COSTS: "costs of rounds on this machine",
            Stage.ACCEPTANCE: "acceptance on these prompts",
            Stage.PROOF: "whole runs, in turn with plain decoding",
        }[self]


class Advised(Record):
    """How far it is; the last one has the report, as `draftscope advise --json` prints it."""

    kind: Literal["advised"] = "advised"
    stage: Stage | None = None
    done: int = 0  # per cent of the costs, prompts of the acceptance, or runs of the proof
    left_s: float | None = None  # at most; absent until it is known how long the costs, which come first, take
    so_far: str = ""  # what the runs say until now: the candidate, its ratio and interval
    ratio: dict[str, float] | None = None  # the same as numbers: median, low and high
    report: dict[str, Any] | None = None
