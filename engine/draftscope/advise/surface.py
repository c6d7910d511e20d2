"""What a map of the speedup is drawn from: the terms of S = tau / (gamma c + v + o) of one drafter, by gamma and
readers; and the same terms on another card, by its roofline. Pure; whoever draws it may ask "what if".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from draftscope.advise.candidates import Candidate
from draftscope.advise.costs import CalibratedCosts, RoundCosts
from draftscope.advise.model import Prefill
from draftscope.advise.observed import Observed, tau_interval
from draftscope.measure.bench.statistics import Interval

CONTEXTS = (64, 256, 512, 1024, 2048, 4096, 16384)


@dataclass(frozen=True)
class Card:
    """A card's memory bandwidth and dense bfloat16 rate, from its data sheet."""

    name: str
    gb_s: float
    tflop_s: float


CARDS = (
    Card("H100 SXM", 3350, 989), Card("H200", 4800, 989), Card("B200", 8000, 2250), Card("A100 80 GB", 2039, 312),
    Card("MI300X", 5300, 1307), Card("L4", 300, 121), Card("RTX 4090", 1008, 165),
)  # fmt: skip


@dataclass(frozen=True)
class ByContext:
    """Costs of one candidate at several contexts, one sequence."""

    gamma: int
    contexts: list[int]
    cost: list[float]  # of a round, in rounds of plain decoding at that context
    plain_ms: list[float]  # a round of plain decoding
    prompt: int  # tokens of the prompts whose prefill was measured
    prefill_ms: float
    extra_ms: float  # that the drafter adds


@dataclass(frozen=True)
class Surface:
    """Of one drafter's chains. Costs are in rounds of plain decoding of as many sequences: [gamma][readers]."""

    drafter: str
    gammas: list[int]
    readers: list[int]
    tau: list[Interval]  # by gamma
    drafting: list[list[float]]  # gamma c
    rest: list[list[float]]  # v + o
    by_context: ByContext | None
    target_bytes: int  # weights that a forward reads
    draft_bytes: int  # of a draft step; 0 for a drafter without a model


@dataclass(frozen=True)
class Sizes:
    """Bytes of weights."""

    target: int = 0
    draft: int = 0


def surface(
    drafter: str,
    observed: Mapping[Candidate, Observed],
    costs: RoundCosts,
    readers: Sequence[int],
    sizes: Sizes,
    at: tuple[int, int, Prefill] | None = None,
) -> Surface | None:
    """The terms of a drafter's chains; None for one that has none. `at` is the gamma whose costs by context are wanted,
    the tokens of the prompts, and their prefill."""
    own = {
        each.gamma: rounds for each, rounds in observed.items() if each.drafter == drafter and each.gamma is not None
    }
    gammas = sorted(own)
    if not gammas:
        return None

    def drafting(gamma: int, batch: int) -> float:
        return (costs.ms(drafter, gamma, gamma, batch) - costs.ms(drafter, gamma, 0, batch)) / costs.plain(batch)

    def rest(gamma: int, batch: int) -> float:
        return costs.ms(drafter, gamma, 0, batch) / costs.plain(batch)

    return Surface(
        drafter=drafter,
        gammas=gammas,
        readers=list(readers),
        tau=[tau_interval(own[gamma]) for gamma in gammas],
        drafting=[[drafting(gamma, batch) for batch in readers] for gamma in gammas],
        rest=[[rest(gamma, batch) for batch in readers] for gamma in gammas],
        by_context=_by_context(drafter, costs, *at) if at is not None and isinstance(costs, CalibratedCosts) else None,
        target_bytes=sizes.target,
        draft_bytes=sizes.draft,
    )


def _by_context(drafter: str, costs: CalibratedCosts, gamma: int, prompt: int, prefill: Prefill) -> ByContext:
    known = max(point.context for point in costs.calibration.verify)
    contexts = [context for context in CONTEXTS if context <= known]
    there = [costs.at(context) for context in contexts]
    return ByContext(
        gamma=gamma,
        contexts=contexts,
        cost=[each.ms(drafter, gamma, gamma, 1) / each.plain(1) for each in there],
        plain_ms=[each.plain(1) for each in there],
        prompt=prompt,
        prefill_ms=prefill.plain,
        extra_ms=prefill.added(drafter),
    )


@dataclass(frozen=True)
class WhatIf:
    """Changes to what was measured. `alpha` None: the measured acceptance; `card` None: the measured costs."""

    alpha: float | None = None
    draft_cost: float = 1.0  # times that of the draft
    card: Card | None = None


def taus(found: Mapping[str, Any], asked: WhatIf) -> list[tuple[float, float, float]]:
    """Tokens a round for each gamma: median, low, high. `found` is a surface as plain values."""
    if asked.alpha is None:
        return [(each["median"], each["low"], each["high"]) for each in found["tau"]]
    alone = [sum(asked.alpha**k for k in range(gamma + 1)) for gamma in found["gammas"]]
    return [(tau, tau, tau) for tau in alone]


def round_costs(found: Mapping[str, Any], asked: WhatIf) -> list[list[float]]:
    """gamma c + v + o for each gamma [readers]."""
    if asked.card is None:
        return [
            [draft * asked.draft_cost + rest for draft, rest in zip(*rows, strict=True)]
            for rows in zip(found["drafting"], found["rest"], strict=True)
        ]
    card, sizes = asked.card, Sizes(found["target_bytes"], found["draft_bytes"])
    return [[_roofline(card, sizes, asked, gamma, batch) for batch in found["readers"]] for gamma in found["gammas"]]


def _roofline(card: Card, sizes: Sizes, asked: WhatIf, gamma: int, batch: int) -> float:
    """The same on a card whose forwards take as long as reading the weights or multiplying, whichever is longer.

    Caches, kernel launches and everything between forwards are left out. Two bytes a weight.
    """
    plain = _forward(card, sizes.target, batch)
    draft = gamma * _forward(card, sizes.draft, batch) * asked.draft_cost
    return (draft + _forward(card, sizes.target, batch * (gamma + 1))) / plain


def _forward(card: Card, weights: int, rows: int) -> float:
    """Seconds; a row takes two operations a weight, which are as many as the bytes."""
    return max(weights / (card.gb_s * 1e9), weights * rows / (card.tflop_s * 1e12))


def ratios(found: Mapping[str, Any], asked: WhatIf) -> list[list[tuple[float, float, float]]]:
    """Speedup for each gamma [readers]: median, low, high."""
    costs = round_costs(found, asked)
    return [
        [(tau / cost, low / cost, high / cost) for cost in row]
        for (tau, low, high), row in zip(taus(found, asked), costs, strict=True)
    ]


def answer_ratio(found: Mapping[str, Any], tau: float, place: int, tokens: int) -> float:
    """Speedup of a whole answer of `tokens` after the context `contexts[place]`; prefill grows with the context."""
    own = found["by_context"]
    more = own["contexts"][place] / max(own["prompt"], 1)
    plain, extra = own["prefill_ms"] * more, own["extra_ms"] * more
    alone = tokens * own["plain_ms"][place]
    return float((alone + plain) / (alone * own["cost"][place] / tau + plain + extra))
