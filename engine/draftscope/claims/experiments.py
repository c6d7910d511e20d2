"""The economics of speculation as experiments: a question, the command that measures it, and the chart of its results.

An experiment is measured by the command of a claim, and its chart is drawn from the same files as that claim's verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.claims import charts
from draftscope.claims.charts import Chart
from draftscope.claims.claim import Claim
from draftscope.claims.saved_results import SavedResults
from draftscope.claims.table import CLAIMS

# Seconds of the claims' commands on two idle cores, with the start of Python: measured on 2026-11-23 with the embedded
# models. Where a claim's command is changed, measure it again.
BY_CLAIM: Mapping[int, int] = {3: 285, 7: 60, 8: 20, 11: 35, 14: 30, 16: 20, 18: 160, 19: 50, 20: 75, 21: 40}
SECONDS = {CLAIMS[number - 1].command: seconds for number, seconds in BY_CLAIM.items()}


@dataclass(frozen=True)
class Experiment:
    """`number` is its claim's; the chart needs the results of `more_claims` too. Without a `chart` nothing that the
    command writes can be drawn."""

    name: str
    question: str
    number: int
    chart: Callable[[SavedResults], Chart | None] | None = None
    more_claims: tuple[int, ...] = ()

    @property
    def claim(self) -> Claim:
        return CLAIMS[self.number - 1]

    @property
    def commands(self) -> tuple[str, ...]:
        """What measures it, one after the other."""
        return tuple(dict.fromkeys(CLAIMS[number - 1].command for number in (self.number, *self.more_claims)))

    @property
    def expected_s(self) -> int:
        """Seconds that all its commands take. Raises `KeyError` for one that was not measured."""
        return sum(SECONDS[command] for command in self.commands)

    def drawn(self, evidence: SavedResults) -> Chart | None:
        return self.chart(evidence) if self.chart is not None else None


EXPERIMENTS = (
    Experiment("Batch", "From how many concurrent requests does speculation cost more?", 18, charts.by_batch),
    Experiment("Context", "Does speculation gain more after a long prompt?", 19, charts.by_context),
    Experiment("Memory", "How much memory does a draft need for a text: a cache that grows, or a constant state?", 11,
               charts.by_memory, more_claims=(19,)),
    Experiment("Answer length", "How long must an answer be to make up for the prefill of a draft?", 20,
               charts.by_length),
    Experiment("Experts, speed", "Does a mixture of experts gain less than a dense target?", 21, charts.experts_speed,
               more_claims=(18,)),
    Experiment("Experts, woken", "How many experts does a verify forward read, and how many would uniform routing?", 21,
               charts.experts_woken),
    Experiment("Ladder of drafters", "Cheap drafter or accurate drafter: which one is the fastest?", 16, charts.ladder,
               more_claims=(3,)),
    Experiment("Fine-tuning", "Does training a drafter on your text raise its acceptance?", 17, charts.fine_tuning),
    Experiment("Jitter", "How evenly do tokens reach a reader?", 15, charts.jitter),
    Experiment("Cascade", "Is a cascade of three models faster than a pair?", 13, charts.cascade),
    Experiment("CUDA graphs", "How much time do CUDA graphs save?", 12),
)  # fmt: skip


def find(name: str) -> Experiment | None:
    """An experiment by its name."""
    return next((experiment for experiment in EXPERIMENTS if experiment.name == name), None)


def named(name: str) -> Experiment:
    """The same. Raises `DraftscopeError` where there is none of that name."""
    experiment = find(name)
    if experiment is None:
        raise DraftscopeError(f"There is no experiment {quoted(name)}; choose one of the list.")
    return experiment
