"""Counts in Prometheus' text format. What is not known has no metric: a board shows a gap, not a zero."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from draftscope.log.alarm import WHY
from draftscope.log.entries import Tally
from draftscope_app.doors.servers.exporter.count_sources import Counts

COUNTERS = {  # name -> what it counts, the field of a tally
    "rounds": ("Rounds that drafted something.", "rounds"),
    "drafted_tokens": ("Tokens that were drafted.", "drafted"),
    "accepted_tokens": ("Drafted tokens that were kept.", "accepted"),
    "written_tokens": ("Tokens that were added to texts, with the target's own.", "emitted"),
}


class _Once:
    """Families that were made already, as a registry wants them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def page(counts: Counts, plain_ms: float | None = None) -> bytes:
    """The page that Prometheus reads. plain_ms: milliseconds a token that plain decoding takes, if it was measured."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(list(_families(counts, plain_ms))))
    return generate_latest(registry)


def _families(counts: Counts, plain_ms: float | None) -> Iterator[Metric]:
    yield _gauge("up", "1: the log or the server could be read.", 0 if counts.problem else 1)
    yield CounterMetricFamily("draftscope_unreadable_lines", "Lines of the log that cannot be.", counts.unreadable)
    if counts.whole is not None:
        yield from _counters(counts.whole)
    recent = counts.recent
    length, rate = recent.tokens_per_round, recent.rate
    yield from _known("tokens_per_round", "Tokens a round, lately.", counts.length if length is None else length)
    yield from _known("acceptance_rate", "Share of drafted tokens kept, lately.", counts.rate if rate is None else rate)
    yield from _known("plain_seconds_per_token", "What plain decoding takes, as it was given.", _seconds(plain_ms))
    alarm = GaugeMetricFamily("draftscope_alarm", "1: acceptance that no sound drafter has, lately.", labels=["what"])
    for what in WHY:
        alarm.add_metric([what], int(recent.alarm == what))
    yield alarm


def _counters(whole: Tally) -> Iterator[Metric]:
    for name, (about, of) in COUNTERS.items():
        value = getattr(whole, of)
        if value is not None:
            yield CounterMetricFamily(f"draftscope_{name}", about, value)
    if whole.drafted is not None and whole.accepted is not None:
        yield CounterMetricFamily("draftscope_wasted_tokens", "Drafted, not kept.", whole.drafted - whole.accepted)
    if whole.ms is not None:
        yield CounterMetricFamily("draftscope_round_seconds", "Time of all rounds.", _seconds(whole.ms))
    for name, about in (("kept", "this position and all before it kept"), ("reached", "this position judged")):
        values = getattr(whole, name)
        if values is not None:
            yield _by_position(f"position_{name}", f"Rounds with {about}.", values)
    if whole.rounds is not None and whole.kept is not None:
        yield _histogram(whole.rounds, whole.kept)


def _by_position(name: str, about: str, values: tuple[float, ...]) -> Metric:
    family = CounterMetricFamily(f"draftscope_{name}", about, labels=["position"])
    for place, value in enumerate(values, start=1):
        family.add_metric([str(place)], value)
    return family


def _histogram(rounds: float, kept: tuple[float, ...]) -> Metric:
    """Rounds by how many drafted tokens they kept."""
    at_most = [(str(count), rounds - more) for count, more in enumerate(kept)]
    family = HistogramMetricFamily("draftscope_accepted_per_round", "Drafted tokens that a round kept.")
    family.add_metric([], [*at_most, ("+Inf", rounds)], sum_value=sum(kept))
    return family


def _known(name: str, about: str, value: float | None) -> Iterator[Metric]:
    if value is not None:
        yield _gauge(name, about, value)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"draftscope_{name}", about, value)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
