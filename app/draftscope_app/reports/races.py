"""A race of servers, and servers under load, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draftscope.measure.bench.statistics import Interval
    from draftscope.servers.adapter import Counted
    from draftscope.servers.curve import LoadCurve
    from draftscope.servers.load import LoadPoint
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
            each.lane,
            " ".join(filter(None, (each.identity.kind, each.identity.version))),
            interval(each.speed),
            interval(each.ratio, digits=2),
            interval(each.ttft, 1e3),
            interval(each.tpot, 1e3),
            MISSING if each.burst is None else f"{each.burst:.2f}",
            accepted(each.counted),
            MISSING if each.log_p is None else f"{each.log_p:+.2f}",
            MISSING if each.best is None else f"{each.best:.1%}",
        )
        for each in summaries
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
    positions = " ".join(f"{each / counted.rounds:.2f}".removeprefix("0") for each in counted.by_position)
    return f"{share} ({positions})"


def load_table(
    points: Sequence[LoadPoint], first: str, curve: LoadCurve
) -> tuple[Sequence[str], list[tuple[str, ...]], frozenset[int]]:
    """Head, rows and which columns are numbers: a row for each point, beside the first lane's speed there."""
    base: Mapping[int, float] = {each.concurrency: each.tokens_per_second for each in points if each.lane == first}
    predicted = {(each.lane, each.concurrency): each.ratio for each in curve.predicted}
    rows: list[tuple[str, ...]] = [
        (
            str(each.concurrency),
            each.lane,
            f"{each.tokens_per_second:.1f}",
            MISSING
            if each.lane == first or not base.get(each.concurrency)
            else f"{each.tokens_per_second / base[each.concurrency]:.2f}",
            number(predicted.get((each.lane, each.concurrency)), 2),
            f"{each.good_per_second:.2f}",
            str(each.finished),
            str(each.failed),
            number(each.latency_p50, 2),
            number(each.latency_p99, 2),
            number(each.ttft_p99, 1, 1e3),
            number(each.tpot_p50, 1, 1e3),
            accepted(each.counted),
        )
        for each in points
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
        f"{each.lane} at {each.concurrency}: {each.failed} requests failed, at first: {each.failure}"
        for each in points
        if each.failure
    ]
    for each in curve.stops:
        drafts = "nothing" if each.nothing else "almost nothing"
        notes.append(f"{each.lane} drafts {drafts} from {each.concurrency} requests at once on.")
    if curve.predicted:
        notes.append(
            f"predicted: tok/s over plain decoding's, from the server's own acceptance and the measured costs of "
            f"{curve.predicted_with}."
        )
    return notes
