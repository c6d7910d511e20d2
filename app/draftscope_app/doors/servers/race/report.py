"""A race of servers, and servers under load, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from draftscope.servers.programs.program_list import titled

if TYPE_CHECKING:
    from draftscope.measure.bench.statistics import Interval
    from draftscope.servers.adapter import Counted
    from draftscope.servers.curve import LoadCurve
    from draftscope.servers.load_test import LoadPoint
    from draftscope.servers.summary import LaneSummary

HEAD = ("lane", "server", "tok/s", "ratio", "TTFT ms", "TPOT ms", "tok/burst", "accepted", "log p", "best")
NUMBERS = frozenset(range(2, len(HEAD)))
LOAD_HEAD = (
    "at once", "lane", "tok/s", "ratio", "predicted", "good/s", "done", "failed", "p50 s", "p99 s",
    "TTFT p99 ms", "TPOT ms", "accepted",
)  # fmt: skip
LOAD_NUMBERS = frozenset((0, *range(2, len(LOAD_HEAD))))
PREDICTED = LOAD_HEAD.index("predicted")
LEGEND = (
    "tok/s, TTFT, TPOT and tok/burst: seen from here, medians (95% interval). accepted: counted by the server.",
    "log p: nats per token under the target here, minus its expectation; near 0 for the target's own samples.",
    "best: tokens that are the target's most probable one; all of them at temperature 0, except ties.",
)
MISSING = "-"


def rows(summaries: Sequence[LaneSummary]) -> list[tuple[str, ...]]:
    """One row for each lane."""
    return [
        (
            summary.lane,
            titled(summary.identity),
            interval(summary.speed),
            interval(summary.ratio, digits=2),
            interval(summary.ttft, 1e3),
            interval(summary.tpot, 1e3),
            MISSING if summary.burst is None else f"{summary.burst:.2f}",
            accepted(summary.counted),
            MISSING if summary.log_p is None else f"{summary.log_p:+.2f}",
            MISSING if summary.best is None else f"{summary.best:.1%}",
        )
        for summary in summaries
    ]


def interval(value: Interval | None, scale: float = 1.0, digits: int = 1) -> str:
    if value is None:
        return MISSING
    low, high = value.low * scale, value.high * scale
    return f"{value.median * scale:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def accepted(counted: Counted | None) -> str:
    """Accepted of drafted tokens; by position where the server says in how many rounds."""
    if counted is None or counted.drafted is None:
        return MISSING
    share = f"{(counted.accepted or 0) / counted.drafted:.0%}" if counted.drafted else "none"
    if not counted.rounds or not counted.by_position:
        return share
    positions = " ".join(f"{tokens / counted.rounds:.2f}".removeprefix("0") for tokens in counted.by_position)
    return f"{share} ({positions})"


def load_table(
    points: Sequence[LoadPoint], first: str, curve: LoadCurve
) -> tuple[Sequence[str], list[tuple[str, ...]], frozenset[int]]:
    """Head, rows and which columns are numbers: a row for each point, beside the first lane's speed there."""
    base: Mapping[int, float] = {point.concurrency: point.tokens_per_second for point in points if point.lane == first}
    predicted = {(prediction.lane, prediction.concurrency): prediction.ratio for prediction in curve.predicted}
    rows: list[tuple[str, ...]] = [
        (
            str(point.concurrency),
            point.lane,
            f"{point.tokens_per_second:.1f}",
            MISSING
            if point.lane == first or not base.get(point.concurrency)
            else f"{point.tokens_per_second / base[point.concurrency]:.2f}",
            number(predicted.get((point.lane, point.concurrency)), 2),
            f"{point.good_per_second:.2f}",
            str(point.finished),
            str(point.failed),
            number(point.latency_p50, 2),
            number(point.latency_p99, 2),
            number(point.ttft_p99, 1, 1e3),
            number(point.tpot_p50, 1, 1e3),
            accepted(point.counted),
        )
        for point in points
    ]
    if curve.predicted:
        return LOAD_HEAD, rows, LOAD_NUMBERS
    rows = [row[:PREDICTED] + row[PREDICTED + 1 :] for row in rows]
    return LOAD_HEAD[:PREDICTED] + LOAD_HEAD[PREDICTED + 1 :], rows, LOAD_NUMBERS


def number(value: float | None, digits: int, scale: float = 1.0) -> str:
    return MISSING if value is None else f"{value * scale:.{digits}f}"


def load_notes(points: Sequence[LoadPoint], curve: LoadCurve) -> list[str]:
    """Sentences below the table."""
    notes = [
        f"{point.lane} at {point.concurrency}: {point.failed} requests failed, at first: {point.failure}"
        for point in points
        if point.failure
    ]
    for stop in curve.stops:
        drafts = "nothing" if stop.nothing else "almost nothing"
        notes.append(f"{stop.lane} drafts {drafts} from {stop.concurrency} requests at once on.")
    if curve.predicted:
        notes.append(
            f"predicted: tok/s over plain decoding's, from the server's own acceptance and the measured costs of "
            f"{curve.predicted_with}."
        )
    return notes
