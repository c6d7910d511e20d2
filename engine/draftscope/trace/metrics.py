"""Metrics computed from the trace alone, with vLLM's names and definitions. Imports no torch.

"Acceptance rate" has three meanings in the literature; `glossary` says what each field is divided by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from pydantic import BaseModel, ConfigDict

from draftscope.trace.events import AnyEvent, Burst, Prefill, Round, RunEnd


class Percentiles(BaseModel):
    """Milliseconds; absent if there is nothing to measure."""

    model_config = ConfigDict(frozen=True)

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class Metrics(BaseModel):
    """The metrics of one lane. `draftscope.trace.glossary` defines each of them."""

    model_config = ConfigDict(frozen=True)

    tokens: int
    target_forwards: int
    num_drafts: int
    num_draft_tokens: int
    num_accepted_tokens: int
    mean_acceptance_length: float
    draft_acceptance_rate: float | None
    acceptance_rate_per_position: list[float]
    conditional_acceptance_per_position: list[float | None]
    tokens_per_round: float
    tokens_per_s: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    itl_ms: Percentiles
    icl_ms: Percentiles
    stage_ms: dict[str, float]


def fold(events: Iterable[AnyEvent]) -> Metrics:
    """The metrics of one lane's events, which may be incomplete. Of a server's lane a burst counts as a round."""
    kept = list(events)
    rounds = [event for event in kept if isinstance(event, Round | Burst)]
    prefill = max((event.end - event.start for event in kept if isinstance(event, Prefill)), default=0.0)
    ended = next((event.end for event in kept if isinstance(event, RunEnd)), None)
    tokens = sum(len(event.emitted) for event in rounds)
    drafts = [event for event in rounds if isinstance(event, Round) and event.drafted]
    drafted, accepted = sum(event.drafted for event in drafts), sum(event.accepted for event in drafts)
    first = rounds[0].end if rounds else None
    last = rounds[-1].end if rounds else None
    total = ended if ended is not None else last
    return Metrics(
        tokens=tokens,
        target_forwards=len(rounds),
        num_drafts=len(drafts),
        num_draft_tokens=drafted,
        num_accepted_tokens=accepted,
        mean_acceptance_length=1 + accepted / len(drafts) if drafts else 1.0,
        draft_acceptance_rate=accepted / drafted if drafted else None,
        acceptance_rate_per_position=_survival(drafts),
        conditional_acceptance_per_position=_conditional(drafts),
        tokens_per_round=tokens / len(rounds) if rounds else 0.0,
        tokens_per_s=1e3 * tokens / total if total and tokens else None,
        ttft_ms=first if prefill or first else None,
        tpot_ms=(last - first) / (tokens - len(rounds[0].emitted)) if first and last and len(rounds) > 1 else None,
        itl_ms=_percentiles(_token_gaps(rounds)),
        icl_ms=_percentiles([after.end - before.end for before, after in pairwise(rounds)]),
        stage_ms=_stages([event for event in rounds if isinstance(event, Round)]),
    )


def _survival(drafts: Sequence[Round]) -> list[float]:
    """vLLM's rate by position: the share of rounds that drafted in which more than k drafted tokens were accepted."""
    longest = max((event.depth for event in drafts), default=0)
    return [sum(event.accepted > k for event in drafts) / len(drafts) for k in range(longest)]


def _conditional(drafts: Sequence[Round]) -> list[float | None]:
    """alpha_k: the share of accepted tokens among the rounds that reached position k and had drafted it.

    A round in which the text ended counts only up to that position.
    """
    longest = max((event.depth for event in drafts), default=0)
    rates: list[float | None] = []
    for k in range(longest):
        reached = [event for event in drafts if event.depth > k and event.accepted >= k and not _cut_before(event, k)]
        rates.append(sum(event.accepted > k for event in reached) / len(reached) if reached else None)
    return rates


def _cut_before(event: Round, position: int) -> bool:
    return event.cut is not None and event.accepted == len(event.emitted) == position


def _token_gaps(rounds: Sequence[Round | Burst]) -> list[float]:
    """Times between consecutive tokens as a reader sees them; tokens of one round arrive together."""
    gaps: list[float] = []
    for before, after in pairwise(rounds):
        gaps += [after.end - before.end] + [0.0] * (len(after.emitted) - 1)
    return ([0.0] * (len(rounds[0].emitted) - 1) if rounds else []) + gaps


def _percentiles(gaps: Sequence[float]) -> Percentiles:
    if not gaps:
        return Percentiles()
    p50, p95, p99 = (float(value) for value in np.percentile(gaps, [50, 95, 99]))
    return Percentiles(p50=p50, p95=p95, p99=p99)


def _stages(rounds: Sequence[Round]) -> dict[str, float]:
    return {
        "propose": sum(sum(event.timings.propose) for event in rounds),
        "verify": sum(event.timings.verify for event in rounds),
        "accept": sum(event.timings.accept for event in rounds),
        "commit": sum(event.timings.commit for event in rounds),
        "host": sum(event.timings.host for event in rounds),
    }
