"""What is asked, validated before a model is loaded. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.settings import Settings

MAX_READERS = 64  # batches that a calibration measures
MIN_SECONDS = 1.0


class Objective(StrEnum):
    """What should become better."""

    LATENCY = "latency"  # the time until an answer is complete
    THROUGHPUT = "throughput"  # tokens/s of the machine
    COST = "cost"  # money per million tokens
    TAIL = "tail"  # the time within which 95% of answers are complete


@dataclass(frozen=True)
class Question:
    """One question. Raises `DraftscopeError` for a value out of range."""

    objective: Objective = Objective.LATENCY
    temperature: float = 0.0
    length: int = 128  # expected tokens of an answer
    concurrency: int = 1  # answers that are written together
    context: int | None = None  # tokens of the prompt; None: prompts as they are
    price_per_hour: float | None = None  # of the machine, in any currency
    seconds: float = 120.0  # for measuring, without the calibration

    def __post_init__(self) -> None:
        Settings.of(temperature=self.temperature)
        Settings.of(max_new_tokens=self.length)
        if not 1 <= self.concurrency <= MAX_READERS:
            raise DraftscopeError(f"concurrency = {self.concurrency}: choose 1 to {MAX_READERS}.")
        if self.context is not None and self.context < 2:
            raise DraftscopeError(f"context = {self.context}: choose at least 2.")
        if not self.seconds >= MIN_SECONDS:
            raise DraftscopeError(f"seconds = {self.seconds:g}: choose at least {MIN_SECONDS:g}.")
        if self.objective is Objective.COST and self.price_per_hour is None:
            raise DraftscopeError("--objective cost needs --price-per-hour, the price of an hour of this machine.")
        if self.price_per_hour is not None and not 0 < self.price_per_hour < float("inf"):
            raise DraftscopeError(f"price_per_hour = {self.price_per_hour:g}: choose a price above 0.")


@dataclass(frozen=True)
class Asked:
    """A question, prompts by kind, and the drafters to compare; all that can run if none is named. One that `waits` has
    this machine's costs measured first, if they are not known."""

    question: Question = field(default_factory=Question)
    prompts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    drafters: tuple[str, ...] = ()
    waits: bool = False
