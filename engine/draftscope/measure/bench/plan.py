"""What a benchmark runs: its sizes, checked before a model is loaded. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.settings import Settings


@dataclass(frozen=True)
class BenchPlan:
    """One benchmark: every combination of the lists is a cell. Raises `DraftscopeError` for a value out of range."""

    drafters: tuple[str, ...] = ()  # none named: every one that this pair can run
    kinds: tuple[str, ...] = ()  # none named: every kind of text there is
    gammas: tuple[int, ...] = (2, 3, 4, 6)
    lengths: tuple[str, ...] = ("fixed",)  # what `--draft-length` takes: how many of gamma tokens a chain drafts
    rules: tuple[str, ...] = ("block",)  # how drawn chains are verified; lossy ones are marked and measured so
    temperatures: tuple[float, ...] = (0.0, 1.0)
    batches: tuple[int, ...] = (1,)  # sequences decoded together
    contexts: tuple[int, ...] = ()  # tokens of the prompt; none named: prompts as they are
    tokens: int = 96  # written by each sequence
    repeats: int = 3  # measured, after one that is warm-up
    peers: bool = True
    prompts_per_kind: int | None = None  # None takes all
    seconds: float | None = None  # no case is begun later than this

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


def where(temperature: float, batch: int, context: int | None) -> str:
    """A cell in words; what is as usual is left unsaid."""
    more = (f", batch {batch}" if batch > 1 else "") + (f", prompts of {context} tokens" if context else "")
    return f"T = {temperature:g}{more}"
