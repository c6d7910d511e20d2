"""What a regret measurement found: plain values, for JSON and for tables."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.statistics import Interval
from draftscope.measure.regret.forms import ComparedTrees


@dataclass(frozen=True)
class RegretRow:
    """One arm or policy on one kind of text. Speeds are tokens over seconds, of all prompts and repeats together."""

    name: str
    policy: bool
    shape: tuple[int, ...] | None  # an arm's children of every node, level by level
    kind: str
    temperature: float
    tokens_per_s: float
    ratio_to_plain: float
    regret: float  # 1 - speed / the best arm's speed; 0 for that arm, below 0 where a policy beats every arm
    ratio_to_best: Interval  # within the same repeat of the same prompt
    tokens_per_round: float
    looping: int
    runs: int


@dataclass(frozen=True)
class RegretReport:
    """Everything that was measured, and what it belongs to."""

    machine: dict[str, str | int]
    method: str
    plan: BenchPlan
    arms: tuple[str, ...]
    policies: tuple[str, ...]
    rows: list[RegretRow]
    compared: list[ComparedTrees]  # a deep narrow and a wide shallow arm, where there are two such
    notes: list[str]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1)
