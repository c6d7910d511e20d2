"""Where a decision changes: acceptance, draft cost, answer length and concurrency at which speculation stops paying."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from draftscope.advise.candidates import Candidate
from draftscope.advise.observed import Observed
from draftscope.advise.round_costs import RoundCosts
from draftscope.advise.speed_model import Predicted, PrefillTimes, steady_ratio
from draftscope.base.costs import alpha_of
from draftscope.servers.programs.program import ScheduleRange

LONGEST = 100_000  # tokens: an answer that pays only beyond this does not pay


@dataclass(frozen=True)
class Limits:
    """Limits of one candidate; each None if there is no such limit or it is unknown."""

    alpha: float | None  # its equal acceptance rate at every position; chains only
    min_alpha: float | None  # below this it stops paying; chains only; above 1 means never pays
    min_tau: float  # tokens a round below which it stops paying
    max_step: float | None  # cost of a draft step, in rounds of plain, above which it stops paying
    step: float | None  # its own
    shortest: int | None  # tokens of an answer from which it pays; None if none does
    off_from: int | None  # readers from which on no candidate pays; None up to the largest known batch
    known_to: int  # that batch


def limits(
    chosen: Predicted, observed: Mapping[Candidate, Observed], costs: RoundCosts, prefill: PrefillTimes, batch: int = 1
) -> Limits:
    """The limits of the chosen candidate at `batch` readers; `off_from` looks at all that were observed."""
    gamma, tau = chosen.candidate.gamma, chosen.tau.median
    fixed = gamma is not None and int(observed[chosen.candidate].nodes.min()) == gamma
    steps = float(observed[chosen.candidate].levels.mean())
    has_steps = chosen.drafting > 0 and steps > 0
    spare = (tau - (chosen.cost - chosen.drafting)) / steps if has_steps else 0.0
    return Limits(
        alpha=alpha_of(tau, gamma) if fixed and gamma is not None else None,
        min_alpha=alpha_of(chosen.cost, gamma) if fixed and gamma is not None else None,
        min_tau=chosen.cost,
        max_step=spare if has_steps and spare > 0 else None,
        step=chosen.drafting / steps if has_steps else None,
        shortest=shortest_answer(chosen.steady, costs.plain(batch), batch * prefill.added(chosen.candidate.drafter)),
        off_from=off_from(observed, costs),
        known_to=costs.max_batch,
    )


def shortest_answer(ratio: float, plain_ms: float, extra_ms: float) -> int | None:
    """N* = P_extra / (T1 (1 - 1/S)): the extra prefill is earned back at T1 (1 - 1/S) a token. None if it never is."""
    if ratio <= 1:
        return None
    tokens = math.ceil(max(0.0, extra_ms) / (plain_ms * (1 - 1 / ratio)))
    return max(1, tokens) if tokens <= LONGEST else None


def batches(most: int) -> list[int]:
    """Every batch up to 16, then every fourth."""
    return [*range(1, min(most, 16) + 1), *range(20, most + 1, 4)]


def off_from(observed: Mapping[Candidate, Observed], costs: RoundCosts) -> int | None:
    """The smallest batch from which on no candidate is faster than plain in a full batch."""
    paying = [
        batch
        for batch in batches(costs.max_batch)
        if any(steady_ratio(entry, rounds, costs, batch) > 1 for entry, rounds in observed.items())
    ]
    if not paying:
        return 1
    later = [batch for batch in batches(costs.max_batch) if batch > paying[-1]]
    return later[0] if later else None


def schedule(
    chosen: Candidate, observed: Mapping[Candidate, Observed], costs: RoundCosts, readers: int = 1
) -> list[ScheduleRange]:
    """The best gamma of the chosen drafter by batch size; 0 where none pays. At `readers` it is the chosen gamma. Empty
    for a drafter without a gamma."""
    chains = {entry: rounds for entry, rounds in observed.items() if entry.drafter == chosen.drafter and entry.gamma}
    if not chains:
        return []
    sizes = batches(costs.max_batch)
    best = [_best_gamma(chains, costs, batch) for batch in sizes]
    if chosen.gamma:  # what was measured decides, wherever the model would have had the same answer as there
        place = max(index for index, size in enumerate(sizes) if size <= readers)
        best = [chosen.gamma if gamma == best[place] and gamma else gamma for gamma in best]
        best[place] = chosen.gamma
    ranges: list[ScheduleRange] = []
    for batch, after, gamma in zip(sizes, [*sizes[1:], sizes[-1] + 1], best, strict=True):
        if ranges and ranges[-1].gamma == gamma:
            ranges[-1] = ScheduleRange(ranges[-1].first, after - 1, gamma)
        else:
            ranges.append(ScheduleRange(batch, after - 1, gamma))
    return ranges


def _best_gamma(chains: Mapping[Candidate, Observed], costs: RoundCosts, batch: int) -> int:
    ratios = {entry.gamma or 0: steady_ratio(entry, rounds, costs, batch) for entry, rounds in chains.items()}
    best = max(ratios, key=lambda gamma: ratios[gamma])
    return best if ratios[best] > 1 else 0
