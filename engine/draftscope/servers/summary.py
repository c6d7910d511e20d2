"""A race as numbers: medians with intervals, ratios to the first lane, what was counted, and what to know about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from draftscope.base.text import same_start
from draftscope.measure.bench.statistics import Interval, bootstrap
from draftscope.servers.adapter import Counted, Identity
from draftscope.servers.forced import Forced
from draftscope.servers.server_race import Answer, Race, RaceLane, RaceResult

VERSION = 1  # of the saved file
OFF = 0.5  # nats: a mean log p further from its expectation is pointed out


@dataclass(frozen=True)
class LaneSummary:
    """One lane. Times in seconds; None where nothing was measured."""

    lane: str
    identity: Identity
    answers: int
    failed: int
    tokens: int
    ttft: Interval | None
    tpot: Interval | None
    speed: Interval | None  # tokens per second, reading the prompt included
    ratio: Interval | None  # of the speed to the first lane's, within the same prompt and repeat
    burst: float | None  # tokens a round, seen from here
    counted: Counted | None  # by the server
    log_p: float | None  # nats per token: log p under the target here, minus its expectation; None if greedy
    best: float | None  # share of tokens that are the target's most probable one
    notes: tuple[str, ...]


def summaries(
    lanes: Sequence[RaceLane], plan: Race, standing: RaceResult, probabilities: Mapping[tuple[str, int, int], Forced]
) -> list[LaneSummary]:
    """One summary for each lane, the first lane's first."""
    first = standing.of(lanes[0].name)
    return [_summary(lane, lane.name == lanes[0].name, first, plan, standing, probabilities) for lane in lanes]


def _summary(
    lane: RaceLane,
    is_first: bool,
    first: Sequence[Answer],
    plan: Race,
    standing: RaceResult,
    probabilities: Mapping[tuple[str, int, int], Forced],
) -> LaneSummary:
    answers = standing.of(lane.name)
    good = [answer for answer in answers if not answer.failure]
    bursts = [size for answer in good for size in answer.latency.bursts]
    known = [
        probabilities[key] for answer in good if (key := (answer.lane, answer.prompt, answer.repeat)) in probabilities
    ]
    log_p, best = against_target(known)
    log_p = log_p if plan.request.temperature else None  # greedy text is always more probable than sampled text
    return LaneSummary(
        lane=lane.name,
        identity=lane.server.identity,
        answers=len(good),
        failed=len(answers) - len(good),
        tokens=sum(answer.latency.tokens for answer in answers),
        ttft=_over(good, lambda answer: answer.latency.ttft),
        tpot=_over(good, lambda answer: answer.latency.tpot),
        speed=_over(good, lambda answer: answer.latency.speed),
        ratio=None if is_first else _ratio(good, first),
        burst=sum(bursts) / len(bursts) if bursts else None,
        counted=standing.counted.get(lane.name) or added([answer.counted for answer in good if answer.counted]),
        log_p=log_p,
        best=best,
        notes=(*_notes(lane, answers, first, plan, standing, log_p), *_outside(known)),
    )


def against_target(known: Sequence[Forced]) -> tuple[float | None, float | None]:
    """Mean of log p minus its expectation, in nats per token, and the share of most probable tokens.

    Tokens that the target's top-k, top-p or min-p rules out are left out of the mean; `outside` counts them.
    """
    said = [row for text in known for row in zip(text.p, text.expected, text.best, strict=True)]
    inside = [math.log(p) - expected for p, expected, _ in said if p > 0]
    best = sum(is_best for *_, is_best in said) / len(said) if said else None
    return sum(inside) / len(inside) if inside else None, best


def outside(known: Sequence[Forced]) -> int:
    """Tokens that the target would not have sampled at all."""
    return sum(p <= 0 for text in known for p in text.p)


def _over(answers: Sequence[Answer], value: Callable[[Answer], float | None]) -> Interval | None:
    groups: dict[int, list[float]] = {}
    for answer in answers:
        if (measured := value(answer)) is not None:
            groups.setdefault(answer.prompt, []).append(measured)
    return bootstrap(list(groups.values())) if groups else None


def _ratio(answers: Sequence[Answer], first: Sequence[Answer]) -> Interval | None:
    speeds = {(answer.prompt, answer.repeat): answer.latency.speed for answer in first if not answer.failure}

    def ratio(answer: Answer) -> float | None:
        base, speed = speeds.get((answer.prompt, answer.repeat)), answer.latency.speed
        return speed / base if speed and base else None

    return _over(answers, ratio)


def added(counted: Sequence[Counted]) -> Counted | None:
    if not counted:
        return None
    positions = max(len(counts.by_position) for counts in counted)
    return Counted(
        rounds=_total([counts.rounds for counts in counted]),
        drafted=_total([counts.drafted for counts in counted]),
        accepted=_total([counts.accepted for counts in counted]),
        by_position=tuple(sum(sum(counts.by_position[i : i + 1]) for counts in counted) for i in range(positions)),
    )


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _notes(
    lane: RaceLane,
    answers: Sequence[Answer],
    first: Sequence[Answer],
    plan: Race,
    standing: RaceResult,
    log_p: float | None,
) -> list[str]:
    """Sentences about a lane, the gravest first."""
    offers, notes = lane.server.identity.offers, []
    if lane.name in standing.dropped:
        notes.append(f"given up: {standing.dropped[lane.name]}")
    elif failures := [answer.failure for answer in answers if answer.failure]:
        notes.append(f"failed {len(failures)} times, at first: {failures[0]}")
    if plan.request.temperature == 0 and (difference := first_difference(answers, first)):
        notes.append(difference)
    if plan.request.temperature and log_p is not None and abs(log_p) > OFF:
        side = "less" if log_p < 0 else "more"
        notes.append(f"its tokens are {abs(log_p):.1f} nats {side} probable under the target than its own would be.")
    if lost := sum(bool(answer.ids) and not answer.complete for answer in answers if not answer.failure):
        notes.append(f"{lost} answers came without some token ids; p is not computed for them.")
    if not offers.ids_out:
        notes.append("sends no token ids: tokens are counted as events, and p is not computed.")
    if not offers.seed and plan.request.temperature:
        notes.append("takes no seed.")
    return notes


def _outside(known: Sequence[Forced]) -> list[str]:
    strange, every = outside(known), sum(len(text.p) for text in known)
    return [f"{strange} of {every} tokens are outside the target's top-k, top-p or min-p here."] if strange else []


def first_difference(answers: Sequence[Answer], first: Sequence[Answer]) -> str | None:
    """Where greedy answers leave the first lane's: by tokens, or by text where a lane sends no ids."""
    others = {(answer.prompt, answer.repeat): answer for answer in first if not answer.failure}
    for answer in answers:
        other = others.get((answer.prompt, answer.repeat))
        if other is None or answer.failure or answer.lane == other.lane:
            continue
        by_ids = answer.complete and other.complete
        mine, its = (answer.ids, other.ids) if by_ids else (answer.text, other.text)
        if mine == its:
            continue
        at, unit = same_start(mine, its), "token" if by_ids else "character"
        parts = at < min(len(mine), len(its))
        where = f"from {unit} {at + 1} on" if parts else f"in length ({len(mine)} and {len(its)} {unit}s)"
        return f"differs from {other.lane} at temperature 0, prompt {answer.prompt + 1}, {where}."
    return None


def saved(
    plan: Race,
    standing: RaceResult,
    rows: Sequence[LaneSummary],
    probabilities: Mapping[tuple[str, int, int], Forced],
) -> dict[str, Any]:
    """Everything of a race as JSON values: settings, lanes, and each answer with its arrivals and probabilities."""
    answers = []
    for answer in standing.answers:
        known = probabilities.get((answer.lane, answer.prompt, answer.repeat))
        answers.append(asdict(answer) | {"p": known and known.p, "best": known and known.best})
    request = {name: value for name, value in asdict(plan.request).items() if name not in ("ids", "text")}
    return {
        "kind": "server-race",
        "version": VERSION,
        "request": request,
        "repeats": plan.repeats,
        "jitter": plan.jitter,
        "prompts": [asdict(prompt) for prompt in plan.prompts],
        "lanes": [asdict(row) for row in rows],
        "answers": answers,
    }
