"""What a benchmark runs and on which texts, validated before a model is loaded. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from draftscope.base import prompts
from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.drafters.settings import Settings


@dataclass(frozen=True)
class BenchPlan:
    """One benchmark: every combination of the lists is a cell. Raises `DraftscopeError` for a value out of range."""

    drafters: tuple[str, ...] = ()  # empty: all that this pair can run
    kinds: tuple[str, ...] = ()  # empty: all kinds of text
    gammas: tuple[int, ...] = (2, 3, 4, 6)
    lengths: tuple[str, ...] = ("fixed",)  # values of `--draft-length`
    rules: tuple[str, ...] = ("block",)  # for drawn chains; lossy ones are marked, and their distance measured
    temperatures: tuple[float, ...] = (0.0, 1.0)
    batches: tuple[int, ...] = (1,)  # sequences decoded together
    contexts: tuple[int, ...] = ()  # tokens of the prompt; empty: prompts as they are
    tokens: int = 96  # written by each sequence
    repeats: int = 3  # after one warm-up pass
    peers: bool = True
    prompts_per_kind: int | None = None  # None: all
    seconds: float | None = None  # no case starts later than this

    def __post_init__(self) -> None:
        for gamma in self.gammas:
            Settings.of(gamma=gamma)
        for length in self.lengths:
            Settings.of(draft_length=length)
        for rule in self.rules:
            Settings.of(rule=rule)
        for temperature in self.temperatures:
            Settings.of(temperature=temperature)
        Settings.of(max_new_tokens=self.tokens)
        least = {"batch": 1, "context": 2}
        for name, values in (("batch", self.batches), ("context", self.contexts)):
            for value in values:
                if value < least[name]:
                    raise DraftscopeError(f"{name} = {value}: choose at least {least[name]}.")
        if self.repeats < 1:
            raise DraftscopeError(f"repeats = {self.repeats}: choose at least 1.")


QUICK = BenchPlan(gammas=(4,), tokens=48, prompts_per_kind=1, seconds=260.0)  # under five minutes on two cores


def texts(plan: BenchPlan, file: Path | None = None) -> tuple[dict[str, list[Prompt]], list[str]]:
    """The plan's prompts by kind, from `file` or else the shipped ones, and a note about skipped lines.

    Raises `DraftscopeError` for a file that cannot be read or an unknown kind.
    """
    by_kind, notes = (prompts.shipped(), []) if file is None else prompts.read(file)
    return prompts.select(by_kind, plan.kinds, plan.prompts_per_kind), notes


def where(temperature: float, batch: int, context: int | None) -> str:
    """A cell in words, without batch 1 and prompts as they are."""
    more = (f", batch {batch}" if batch > 1 else "") + (f", prompts of {context} tokens" if context else "")
    return f"T = {temperature:g}{more}"
