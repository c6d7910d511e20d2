"""What the rounds of a log come to: tokens a round, acceptance by position, times; and what the log does not know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add

from draftscope.log.entries import LoggedRound, RoundsRead, Tally, tally

UNKNOWN = {  # a field of a round -> what is not known without it
    "draft": "which tokens were drafted",
    "tokens": "which tokens were written",
    "position": "how long the text was before a round",
    "at_ms": "when a round was",
    "ms": "how long a round took",
    "p": "p",
    "q": "q",
    "u": "the random numbers",
}
OF_SEVERAL = {  # of a tally
    "rounds": "how many rounds there were",
    "drafted": "how many tokens were drafted",
    "accepted": "how many tokens were kept",
    "emitted": "how many tokens were written",
    "kept": "acceptance by position",
    "ms": "how long it took",
}


@dataclass(frozen=True)
class AtPosition:
    """Acceptance at one place of a draft; in a tree, at one depth."""

    position: int  # from 1
    kept: float  # rounds that kept it and all before it
    share: float  # of all rounds that drafted: vLLM's acceptance by position
    reached: float | None  # rounds that drafted it and kept all before it; None: not known
    conditional: float | None  # share of those, or of the rounds that kept all before it where `reached` is not known


@dataclass(frozen=True)
class RoundsSummary:
    """None: the log does not know."""

    rounds: float | None  # that drafted something
    drafted: int | None
    accepted: int | None
    emitted: int | None
    tokens_per_round: float | None  # kept ones and the target's own
    acceptance_rate: float | None  # of the drafted tokens, those that were kept
    requests: int | None
    tokens_per_round_by_request: float | None  # the mean over requests, whose mean counts each alike
    seconds: float | None
    tokens_per_s: float | None
    positions: tuple[AtPosition, ...] | None
    histogram: tuple[float, ...] | None  # rounds by how many tokens they kept, from 0
    lengths: tuple[float, float] | None  # the least and the largest mean that an engine said which counts no rounds
    unknown: tuple[str, ...]  # what the log does not know, in words


def summarize(log: RoundsRead) -> RoundsSummary:
    """Everything that the log knows, all of its requests together."""
    whole = reduce(add, (*log.tallies, *([tally(log.rounds)] if log.rounds else ())))
    whole = log.tallies[0] if len(log.tallies) == 1 and not log.rounds else whole
    by_request = _by_request(log)
    said = [item.length for item in log.tallies if item.length is not None]
    return RoundsSummary(
        rounds=whole.rounds,
        drafted=whole.drafted,
        accepted=whole.accepted,
        emitted=whole.emitted,
        tokens_per_round=_per_round(whole),
        acceptance_rate=_ratio(whole.accepted, whole.drafted),
        requests=len(by_request) or None,
        tokens_per_round_by_request=_mean(by_request),
        seconds=None if whole.ms is None else whole.ms / 1000,
        tokens_per_s=_ratio(whole.emitted, None if whole.ms is None else whole.ms / 1000),
        positions=_positions(whole),
        histogram=_histogram(whole),
        lengths=(min(said), max(said)) if said else None,
        unknown=tuple(_unknown(log, whole)),
    )


def _per_round(whole: Tally) -> float | None:
    kept = _ratio(whole.accepted, whole.rounds)
    return None if kept is None else 1 + kept


def _by_request(log: RoundsRead) -> list[float | None]:
    """Tokens a round of each request; empty where it is not known which rounds are of one request."""
    texts: dict[str, list[LoggedRound]] = {}
    for item in log.rounds:
        texts.setdefault(item.request, []).append(item)
    if set(texts) == {""}:
        return []
    requests = [_per_round(tally(rounds)) for rounds in texts.values() if any(item.drafted for item in rounds)]
    return requests + [_per_round(item) for item in log.tallies if item.of.startswith(("answer", "a request"))]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _positions(whole: Tally) -> tuple[AtPosition, ...] | None:
    if whole.kept is None or not whole.rounds:
        return None
    places, before = [], whole.rounds
    for place, kept in enumerate(whole.kept):
        reached = None if whole.reached is None else whole.reached[place]
        conditional = _ratio(kept, before if reached is None else reached)
        places.append(AtPosition(place + 1, kept, kept / whole.rounds, reached, conditional))
        before = kept
    return tuple(places)


def _histogram(whole: Tally) -> tuple[float, ...] | None:
    if whole.kept is None or whole.rounds is None:
        return None
    at_least = (whole.rounds, *whole.kept, 0.0)
    return tuple(more - most for more, most in pairwise(at_least))


def _unknown(log: RoundsRead, whole: Tally) -> list[str]:
    if not log.tallies:
        return [words + some for name, words in UNKNOWN.items() if (some := _lacking(log.rounds, name)) is not None]
    missing = [words for name, words in OF_SEVERAL.items() if getattr(whole, name) is None]
    return [*missing, "any single round"] if not log.rounds else missing


def _lacking(rounds: Sequence[LoggedRound], name: str) -> str | None:
    """In which rounds a field is not known: empty for all of them. None if it is known in every one that has it."""
    having = [item for item in rounds if item.drafted or name not in ("draft", "p", "q", "u")]
    lacking = sum(getattr(item, name) is None for item in having)
    return None if not lacking else "" if lacking == len(having) else " (in some rounds)"


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
