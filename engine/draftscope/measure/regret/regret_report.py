"""The result of a regret measurement, as plain values for JSON and tables."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.statistics import Interval
from draftscope.measure.regret.forms import ComparedTrees


@dataclass(frozen=True)
class RegretRow:
    """One arm or policy on one kind of text. Speeds are tokens over seconds, over all prompts and repeats."""

    name: str
    policy: bool
    shape: tuple[int, ...] | None  # an arm's children of every node, level by level
    kind: str
    temperature: float
    tokens_per_s: float
    ratio_to_plain: float
    regret: float  # 1 - speed / the best arm's speed; 0 for that arm, negative if a policy beats every arm
    ratio_to_best: Interval  # within the same repeat of the same prompt
    tokens_per_round: float
    looping: int
    runs: int


@dataclass(frozen=True)
class RegretReport:
    """All measurements, and the machine and models they belong to."""

    machine: dict[str, str | int]
    method: str
    plan: BenchPlan
    arms: tuple[str, ...]
    policies: tuple[str, ...]
    rows: list[RegretRow]
    compared: list[ComparedTrees]  # a deep narrow and a wide shallow arm, if there are two such
    notes: list[str]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1)
