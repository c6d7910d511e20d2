"""Predicts each candidate: S = tau / (gamma c + v + o), with measured curves, for whole answers in a batch.

`steady_ratio` is that formula for a batch that stays full. `predict` is what the question asks: answers of its length
that begin together, prefill included, in the terms of its objective. It predicts what the proof measures, the geometric
mean of the prompts' ratios: the ratio of the prompts' total times would be that of the slowest prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np
from numpy.typing import NDArray

from draftscope.advise.candidates import Candidate
from draftscope.advise.observed import Observed, tau_interval
from draftscope.advise.question import Objective, Question
from draftscope.advise.round_costs import RoundCosts
from draftscope.advise.simulated_answers import finish_times
from draftscope.measure.bench.statistics import Interval

DRAWS = 256  # of the largest draft in a batch
TAIL = 0.95


@dataclass(frozen=True)
class PrefillTimes:
    """Milliseconds of set-up and prefill, before the first round: plain's, and what each drafter adds to them."""

    plain: float = 0.0
    extra: Mapping[str, float] | None = None

    def of(self, drafter: str) -> float:
        return self.plain + self.added(drafter)

    def added(self, drafter: str) -> float:
        return (self.extra or {}).get(drafter, 0.0)


@dataclass(frozen=True)
class Predicted:
    """One candidate. `cost` and its part `drafting` (gamma c) are of rounds of as many sequences as were asked for, in
    rounds of plain decoding of as many.

    `ratio` is plain's value of the objective divided by the candidate's (for speeds the other way round), so that more
    than 1 is better; its interval is tau's.
    """

    candidate: Candidate
    tau: Interval
    cost: float
    drafting: float
    ratio: Interval

    @property
    def steady(self) -> float:
        """The ratio in a batch that stays full, without prefill."""
        return self.tau.median / self.cost


def predict(
    question: Question,
    observed: Mapping[Candidate, Observed],
    costs: RoundCosts,
    prefill: PrefillTimes,
    tokens: int | None = None,
) -> list[Predicted]:
    """Every candidate, the best first, for answers of `tokens` (by default the question's length)."""
    predictions = [_predicted(question, entry, rounds, costs, prefill, tokens) for entry, rounds in observed.items()]
    return sorted(predictions, key=lambda prediction: -prediction.ratio.median)


def steady_ratio(candidate: Candidate, observed: Observed, costs: RoundCosts, batch: int = 1) -> float:
    """tau / (gamma c + v + o): tokens/s over plain's in a batch that stays full."""
    return observed.tau / round_cost(candidate, observed, costs, batch)


def round_cost(candidate: Candidate, observed: Observed, costs: RoundCosts, batch: int = 1) -> float:
    """gamma c + v + o, the mean over rounds: all sequences of a batch pay for the largest draft among them."""
    nodes, levels = observed.nodes, observed.levels
    if batch > 1 and nodes.min() < nodes.max():
        picked = np.random.default_rng(0).integers(0, len(nodes), (DRAWS, batch))
        nodes, levels = nodes[picked].max(1), levels[picked].max(1)
    kinds, counts = np.unique(np.stack([nodes, levels], 1), axis=0, return_counts=True)
    ms = [costs.ms(candidate.drafter, int(node), int(level), batch) for node, level in kinds]
    return float(np.average(ms, weights=counts)) / costs.plain(batch)


def value(question: Question, finish: NDArray[np.float64]) -> float:
    """What the objective minimises, from the times [S, B] at which answers are complete."""
    if question.objective is Objective.LATENCY:
        return float(finish.mean())
    if question.objective is Objective.TAIL:
        return float(np.quantile(finish, TAIL))
    return float(finish.max(1).mean())


def best_by_drafter(predictions: Iterable[Predicted]) -> list[Predicted]:
    """The best candidate of each drafter, in the order given."""
    best: dict[str, Predicted] = {}
    for prediction in predictions:
        best.setdefault(prediction.candidate.drafter, prediction)
    return list(best.values())


def _predicted(
    question: Question,
    candidate: Candidate,
    observed: Observed,
    costs: RoundCosts,
    prefill: PrefillTimes,
    tokens: int | None,
) -> Predicted:
    drafter, batch, length = candidate.drafter, question.concurrency, tokens or question.length
    finish = finish_times(observed, lambda *size: costs.ms(drafter, *size), batch, length)
    plain = length * costs.plain(batch) + batch * prefill.plain
    groups = [finish.reshape(-1, batch)] if question.objective is Objective.TAIL else finish  # as the proof's are
    ratio = geometric_mean(plain / (value(question, group) + batch * prefill.of(drafter)) for group in groups)
    tau, cost = tau_interval(observed), round_cost(candidate, observed, costs, batch)
    nodes, levels = round(float(observed.nodes.mean())), round(float(observed.levels.mean()))
    drafting = costs.ms(drafter, nodes, levels, batch) - costs.ms(drafter, nodes, 0, batch)
    return Predicted(
        candidate=candidate,
        tau=tau,
        cost=cost,
        drafting=drafting / costs.plain(batch),
        ratio=Interval(ratio, ratio * tau.low / tau.median, ratio * tau.high / tau.median),
    )
