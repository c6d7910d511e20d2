"""Statistics of a finished run for its plots: gaps, acceptance by position, accepted lengths. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from draftscope.trace.events import AnyEvent, Burst, Round, RunStart
from draftscope.trace.metrics import fold


@dataclass(frozen=True)
class Position:
    """One position in the draft: verified in `reached` rounds, accepted in `accepted` of them."""

    position: int
    reached: int
    accepted: int
    alpha: float | None  # `conditional_acceptance_per_position` of the engine's metrics


def by_lane(events: Iterable[AnyEvent]) -> dict[str, list[AnyEvent]]:
    """Events of each lane, lanes in order of appearance."""
    lanes: dict[str, list[AnyEvent]] = {}
    for event in events:
        lanes.setdefault(event.lane, []).append(event)
    return lanes


def rounds_of(events: Sequence[AnyEvent]) -> list[Round]:
    return [event for event in events if isinstance(event, Round)]


def drafter_of(events: Sequence[AnyEvent]) -> str:
    return next((event.drafter for event in events if isinstance(event, RunStart)), "")


def chunk_gaps(events: Sequence[AnyEvent]) -> list[float]:
    """ICL: milliseconds between streamed chunks on the lane's clock; a round's tokens arrive together."""
    rounds = [event for event in events if isinstance(event, Round | Burst)]
    return [after.end - before.end for before, after in pairwise(rounds)]


def acceptance_by_position(events: Sequence[AnyEvent]) -> list[Position]:
    """Conditional acceptance by depth, with its counts."""
    rounds = [r for r in rounds_of(events) if r.drafted]
    alphas = fold(events).conditional_acceptance_per_position
    table = []
    for k, alpha in enumerate(alphas):
        reached = [
            r for r in rounds if r.depth > k and r.accepted >= k and not (r.cut and r.accepted == len(r.emitted) == k)
        ]
        table.append(Position(k + 1, len(reached), sum(r.accepted > k for r in reached), alpha))
    return table


def accepted_lengths(events: Sequence[AnyEvent]) -> dict[int, int]:
    """Number of accepted tokens -> number of rounds, of those that drafted; 0 for numbers that do not occur."""
    rounds = [r for r in rounds_of(events) if r.drafted]
    if not rounds:
        return {}
    counts = Counter(r.accepted for r in rounds)
    return {k: counts.get(k, 0) for k in range(max(r.depth for r in rounds) + 1)}
