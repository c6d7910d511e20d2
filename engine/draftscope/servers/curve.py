"""A load as one document: its points so far, and what the calibration here predicts of them.

`draftscope race --concurrency ... --save` writes it, and the page shows it, live or from such a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from draftscope.base.costs import Calibration
from draftscope.drafters.registry import known_heads
from draftscope.servers.load_test import LoadPlan, LoadPoint
from draftscope.servers.programs.program_list import titled
from draftscope.servers.server_race import RaceLane
from draftscope.trace.events import Record

ALMOST = 0.1  # of the drafted tokens for each written one that a server had at fewer requests at once


class PredictedPoint(Record):
    """Tokens per second over plain decoding's, where the server drafted as it did and costs are those here."""

    lane: str
    concurrency: int
    ratio: float


class Stop(Record):
    """From this many requests at once on, a server that drafted before drafts nothing, or almost nothing.

    While a point begins and ends, fewer requests are in flight, and a few drafts are counted.
    """

    lane: str
    concurrency: int
    nothing: bool  # not one token was drafted there


class LoadCurve(Record):
    """A load so far. `points` have the fields of `LoadPoint`; seconds throughout."""

    kind: Literal["server-load"] = "server-load"
    version: Literal[1] = 1
    lanes: dict[str, str]  # name -> program and version
    missing: dict[str, str]  # lane -> why it does not take part
    concurrency: list[int]  # asked for
    seconds: float  # of each point
    rate: float | None  # arrivals per second; None: closed
    tokens: int  # of an answer, at most
    temperature: float
    points: list[dict[str, Any]] = Field(default_factory=list)
    predicted: list[PredictedPoint] = Field(default_factory=list)
    stops: list[Stop] = Field(default_factory=list)
    predicted_with: str = ""  # whose costs; empty where nothing was predicted
    over: bool = False  # every point was measured
    created: str = ""


def empty_curve(lanes: Sequence[RaceLane], missing: Mapping[str, str], plan: LoadPlan) -> LoadCurve:
    """Before anything was asked."""
    return LoadCurve(
        lanes={lane.name: titled(lane.server.identity) for lane in lanes}, missing=dict(missing),
        concurrency=list(plan.concurrency),
        seconds=plan.seconds, rate=plan.rate, tokens=plan.request.max_tokens, temperature=plan.request.temperature,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def stream_curve(
    start: LoadCurve, points: Iterator[LoadPoint | None], costs: tuple[Calibration, str] | None
) -> Iterator[LoadCurve | None]:
    """The document before and after each of `points`, and None while none comes; `costs`: a calibration and the drafter
    that servers may use."""
    curve = start if costs is None else start.model_copy(update={"predicted_with": named(*costs)})
    yield curve
    measured: list[LoadPoint] = []
    for point in points:
        if point is None:
            yield None
            continue
        measured.append(point)
        update: dict[str, Any] = {"points": [*curve.points, asdict(point)], "stops": stops(measured)}
        ratio = None if costs is None else predicted_ratio(point, *costs)
        if ratio is not None:
            predicted = PredictedPoint(lane=point.lane, concurrency=point.concurrency, ratio=ratio)
            update["predicted"] = [*curve.predicted, predicted]
        update["over"] = len(update["points"]) == len(curve.lanes) * len(curve.concurrency)
        curve = curve.model_copy(update=update)
        yield curve


def stops(points: Sequence[LoadPoint]) -> list[Stop]:
    """Where servers stop drafting: one entry at most for each lane, by what the servers counted."""
    entries = []
    for lane in dict.fromkeys(point.lane for point in points):
        lane_points = sorted((point for point in points if point.lane == lane), key=lambda point: point.concurrency)
        drafted = [
            (point.concurrency, share) for point in lane_points if (share := point.drafted_per_token) is not None
        ]
        few = [share <= ALMOST * max(before for _, before in drafted[: i + 1]) for i, (_, share) in enumerate(drafted)]
        first = len(drafted) - next((n for n, is_few in enumerate(reversed(few)) if not is_few), len(drafted))
        if 0 < first < len(drafted):
            nothing = all(share == 0 for _, share in drafted[first:])
            entries.append(Stop(lane=lane, concurrency=drafted[first][0], nothing=nothing))
    return entries


def predicted_ratio(point: LoadPoint, calibration: Calibration, drafter: str) -> float | None:
    """Tau over the cost of a round with as many drafted tokens, at as many sequences (2211.17192 with measured costs).

    tau and the drafted tokens are what the server counted. None where it did not count rounds, drafted nothing, or more
    requests were in flight than calibration has measured together.
    """
    counted = point.counted
    if counted is None or not counted.rounds or not counted.drafted or counted.accepted is None:
        return None
    if point.concurrency > max(measured.batch for measured in calibration.verify):
        return None
    tau, gamma = 1 + counted.accepted / counted.rounds, max(1, round(counted.drafted / counted.rounds))
    return tau / calibration.round_cost(drafter, gamma, point.concurrency)


def drafter_here(calibration: Calibration) -> str | None:
    """The drafter whose costs stand for a server's: the draft model or the head that is loaded here, else n-grams."""
    able = [name for name in ("draft", *known_heads(), "ngram") if name in calibration.drafting]
    return able[0] if able else None


def named(calibration: Calibration, drafter: str) -> str:
    """Whose costs these are, as a reader may check it."""
    pair = calibration.measured_for
    name = f"{pair.draft} as draft model" if drafter == "draft" else f"drafter '{drafter}'"
    threads = "1 thread" if pair.threads == 1 else f"{pair.threads} threads"
    return f"{pair.target}, {name}, {pair.dtype}, {threads} here"
