"""A surface under other assumptions: another acceptance, a cheaper draft, another card by the forecast's cost model.

It reads a surface as plain values, as a report holds it, and imports no torch, nor does the forecast: a page that
draws a map starts without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftscope.forecast.acceptance_priors import tau_of
from draftscope.forecast.architecture import Architecture, of_size
from draftscope.forecast.cost import Hardware, drafting_ms, forward_ms, plain_ms, round_ms
from draftscope.forecast.drafter_forwards import DraftPlan, find_kind
from draftscope.forecast.hardware_tables import Card, find_card, find_engine

CARDS = tuple(map(find_card, ("H100", "H200", "B200", "A100", "MI300X", "L4", "RTX 4090")))
ENGINE = find_engine("vLLM")  # what would serve there
MIN_BYTES = 10**9  # of a target: a smaller one takes as long as its launches on a card, whatever the drafter
WEIGHT_BYTES = 2


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


def refusal(surface: Mapping[str, Any], wanted: WhatIf) -> str | None:
    """Why the card says nothing about this target, or None."""
    size = surface["target_bytes"]
    if wanted.card is None or size >= MIN_BYTES:
        return None
    return (
        f"A target of {size / 1e9:.2f} GB says nothing about {wanted.card.name}: below {MIN_BYTES / 1e9:.0f} GB a "
        "forward takes as long as its launches. Name the model you would serve: draftscope forecast MODEL --card NAME."
    )


def taus(surface: Mapping[str, Any], what_if: WhatIf) -> list[tuple[float, float, float]]:
    """Tokens a round for each gamma: median, low, high. `surface` is one as plain values."""
    if what_if.alpha is None:
        return [(interval["median"], interval["low"], interval["high"]) for interval in surface["tau"]]
    return [(tau_of(what_if.alpha, gamma),) * 3 for gamma in surface["gammas"]]


def round_costs(surface: Mapping[str, Any], what_if: WhatIf) -> list[list[float]]:
    """gamma c + v + o for each gamma [readers]."""
    if what_if.card is None:
        return [
            [draft * what_if.draft_cost + rest for draft, rest in zip(*rows, strict=True)]
            for rows in zip(surface["drafting"], surface["rest"], strict=True)
        ]
    there, context = _There(surface, what_if), (surface["by_context"] or {}).get("prompt", 0)
    return [[there.round_cost(gamma, batch, context) for batch in surface["readers"]] for gamma in surface["gammas"]]


class _There:
    """The pair of a surface on the card of a `WhatIf`: usual shapes of their sizes, served by `ENGINE`."""

    def __init__(self, surface: Mapping[str, Any], wanted: WhatIf) -> None:
        assert wanted.card is not None
        self._machine, self._draft_cost = Hardware(wanted.card, ENGINE), wanted.draft_cost
        self._target: Architecture = of_size(surface["target_bytes"] / WEIGHT_BYTES)
        size = surface["draft_bytes"] / WEIGHT_BYTES
        self._kind, self._draft = find_kind("draft" if size else "ngram"), of_size(size) if size else None

    def plain_ms(self, readers: int, context: float) -> float:
        return plain_ms(self._target, self._machine, readers, context)

    def round_cost(self, gamma: int, readers: int, context: float) -> float:
        """A round, in rounds of plain decoding of as many sequences."""
        drafting = DraftPlan(self._kind, self._draft, gamma, 1, gamma + 1, gamma)
        more = (self._draft_cost - 1) * drafting_ms(drafting, self._machine, readers, context)
        whole = round_ms(self._target, drafting, self._machine, readers, context) + more
        return whole / self.plain_ms(readers, context)

    def prefill_ms(self, context: int) -> tuple[float, float]:
        """Of the target, and what the draft adds."""
        draft = forward_ms(self._draft, self._machine, 1, context, 0) if self._draft else 0.0
        return forward_ms(self._target, self._machine, 1, context, 0), draft


def ratios(surface: Mapping[str, Any], what_if: WhatIf) -> list[list[tuple[float, float, float]]]:
    """Speedup for each gamma [readers]: median, low, high."""
    costs = round_costs(surface, what_if)
    return [
        [(tau / cost, low / cost, high / cost) for cost in row]
        for (tau, low, high), row in zip(taus(surface, what_if), costs, strict=True)
    ]


def answer_ratio(
    surface: Mapping[str, Any], tau: float, place: int, tokens: int, wanted: WhatIf | None = None
) -> float:
    """Speedup of a whole answer of `tokens` after the context `contexts[place]`; prefill grows with the context."""
    table, wanted = surface["by_context"], wanted or WhatIf()
    context = table["contexts"][place]
    if wanted.card is not None:
        there = _There(surface, wanted)
        plain_step, cost = there.plain_ms(1, context), there.round_cost(table["gamma"], 1, context)
        plain, extra = there.prefill_ms(context)
    else:
        cheaper = (wanted.draft_cost - 1) * table["drafting"][place] if wanted.draft_cost != 1 else 0.0
        plain_step, cost = table["plain_ms"][place], table["cost"][place] + cheaper
        more = context / max(table["prompt"], 1)
        plain, extra = table["prefill_ms"] * more, table["extra_ms"] * more
    decoding = tokens * plain_step
    return float((decoding + plain) / (decoding * cost / tau + plain + extra))
