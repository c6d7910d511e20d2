"""What a map of the speedup is drawn from: the terms of S = tau / (gamma c + v + o) of one drafter, by gamma and
readers. Pure; `what_if` changes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from draftscope.advise.candidates import Candidate
from draftscope.advise.observed import Observed, tau_interval
from draftscope.advise.round_costs import CalibratedCosts, RoundCosts
from draftscope.advise.speed_model import PrefillTimes
from draftscope.advise.what_if import Sizes
from draftscope.measure.bench.statistics import Interval

READERS = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (64, 256, 512, 1024, 2048, 4096, 16384)


@dataclass(frozen=True)
class ByContext:
    """Costs of one candidate at several contexts, that of the prompts among them, one sequence."""

    gamma: int
    contexts: list[int]
    cost: list[float]  # of a round, in rounds of plain decoding at that context
    drafting: list[float]  # gamma c, its part that a cheaper draft makes smaller
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


def surface(
    drafter: str,
    observed: Mapping[Candidate, Observed],
    costs: RoundCosts,
    sizes: Sizes,
    at: tuple[int, int, PrefillTimes] | None = None,
) -> Surface | None:
    """The terms of a drafter's chains; None for one that has none. `at` is the gamma whose costs by context are wanted,
    the tokens of the prompts, and their prefill."""
    by_gamma = {
        entry.gamma: rounds
        for entry, rounds in observed.items()
        if entry.drafter == drafter and entry.gamma is not None
    }
    gammas = sorted(by_gamma)
    if not gammas:
        return None
    readers = [size for size in READERS if size <= costs.max_batch]

    def drafting(gamma: int, batch: int) -> float:
        return (costs.ms(drafter, gamma, gamma, batch) - costs.ms(drafter, gamma, 0, batch)) / costs.plain(batch)

    def rest(gamma: int, batch: int) -> float:
        return costs.ms(drafter, gamma, 0, batch) / costs.plain(batch)

    return Surface(
        drafter=drafter,
        gammas=gammas,
        readers=readers,
        tau=[tau_interval(by_gamma[gamma]) for gamma in gammas],
        drafting=[[drafting(gamma, batch) for batch in readers] for gamma in gammas],
        rest=[[rest(gamma, batch) for batch in readers] for gamma in gammas],
        by_context=_by_context(drafter, costs, *at) if at is not None and isinstance(costs, CalibratedCosts) else None,
        target_bytes=sizes.target,
        draft_bytes=sizes.draft,
    )


def _by_context(drafter: str, costs: CalibratedCosts, gamma: int, prompt: int, prefill: PrefillTimes) -> ByContext:
    known = max(point.context for point in costs.calibration.verify)
    contexts = sorted({prompt, *(context for context in CONTEXTS if context <= known)})
    there = [costs.at(context) for context in contexts]
    whole = [costs_at.ms(drafter, gamma, gamma, 1) for costs_at in there]
    without = [costs_at.ms(drafter, gamma, 0, 1) for costs_at in there]
    plain = [costs_at.plain(1) for costs_at in there]
    return ByContext(
        gamma=gamma,
        contexts=contexts,
        cost=[ms / one for ms, one in zip(whole, plain, strict=True)],
        drafting=[(ms - rest) / one for ms, rest, one in zip(whole, without, plain, strict=True)],
        plain_ms=plain,
        prompt=prompt,
        prefill_ms=prefill.plain,
        extra_ms=prefill.added(drafter),
    )
