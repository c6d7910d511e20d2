"""A surface under other assumptions: another acceptance, a cheaper draft, another card by its roofline.

It reads a surface as plain values, as a report holds it, and imports nothing of the engine: a page that draws a map
starts without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
class Sizes:
    """Bytes of weights."""

    target: int = 0
    draft: int = 0


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


def answer_ratio(found: Mapping[str, Any], tau: float, place: int, tokens: int, draft_cost: float = 1.0) -> float:
    """Speedup of a whole answer of `tokens` after the context `contexts[place]`; prefill grows with the context.

    `draft_cost` is as in `WhatIf`; another card is not known here, since a roofline has no caches.
    """
    own = found["by_context"]
    cheaper = (draft_cost - 1) * own["drafting"][place] if draft_cost != 1 else 0.0
    cost = own["cost"][place] + cheaper
    more = own["contexts"][place] / max(own["prompt"], 1)
    plain, extra = own["prefill_ms"] * more, own["extra_ms"] * more
    alone = tokens * own["plain_ms"][place]
    return float((alone + plain) / (alone * cost / tau + plain + extra))
