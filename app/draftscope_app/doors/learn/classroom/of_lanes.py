"""Questions about whole lanes: which is faster, which lets a reader wait, what rows cost, whose text is off."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from draftscope.base.errors import DraftscopeError
from draftscope.trace.events import TargetProbs, VerifyCosts
from draftscope_app.doors.learn.classroom.questions import Question, Spec, bars_of
from draftscope_app.doors.learn.classroom.recorded_lanes import Lane, readable

PLACES = 4  # that a question about the longest gap offers
STANDS_OUT = 1.5  # of the median: a wait that a reader notices
TWICE = 2.0
WIDTHS = 6  # that a question about rows offers at most
NEITHER = "neither of them"
Lanes = dict[str, Lane]


def faster(spec: Spec, lanes: Lanes) -> Question:
    """Which lane writes most, on its own clock, with its text as long as the others'."""
    compared = _compared(spec, lanes)
    speeds = {"second": _per_second, "pass": _per_pass}[spec.per]
    amounts = [speeds(lane) for lane in compared]
    names, first = _names(spec, compared), amounts.index(max(amounts))
    digits = 0 if max(amounts) >= 100 else 1
    return Question(
        lesson=spec.lesson,
        ask=spec.ask or f"Which of these writes most tokens a {spec.per} here?",
        context=compared[0].context(0),
        options=tuple(names),
        truth=first,
        said=_why_faster(compared, names, first) if spec.per == "second" else _why_more(compared, names),
        bars=bars_of(names, amounts, [f"{amount:.{digits}f} tokens/{'s' if spec.per == 'second' else 'pass'}"
                                      for amount in amounts]),
    )  # fmt: skip


def _why_faster(compared: Sequence[Lane], names: Sequence[str], first: int) -> str:
    """Tokens a round against what a round costs, where one of the lanes is plain; else only tokens a round."""
    plain = next((lane for lane in compared if lane.start.drafter == "plain"), None)
    if plain is None:
        return _why_more(compared, names)
    drafting = [n for n, lane in enumerate(compared) if lane is not plain]
    best = first if first in drafting else max(drafting, key=lambda n: _per_second(compared[n]))
    tau, cost = _per_pass(compared[best]), _round_ms(compared[best]) / _round_ms(plain)
    so = "save more than guessing costs" if best == first else "save less than guessing costs"
    return (
        f"{_begun(names[best])}: a round gives {tau:.1f} tokens and takes {cost:.1f} times as long as a plain one. "
        f"Guesses that are kept {so}."
    )


def _why_more(compared: Sequence[Lane], names: Sequence[str]) -> str:
    """How many passes each lane needed for its text."""
    passes = "; ".join(f"{name}: {len(lane.arrivals)} passes" for name, lane in zip(names, compared, strict=True))
    return f"{_begun(passes)}. Alternatives help where a first guess falls, a longer row where it holds."


def _begun(words: str) -> str:
    """As a sentence begins."""
    return words[:1].upper() + words[1:]


def waits(spec: Spec, lanes: Lanes) -> Question:
    """In which lane a reader waits longest between two arrivals of text."""
    compared = _compared(spec, lanes)
    took = [_round_ms(lane) for lane in compared]
    names, longest = _names(spec, compared), took.index(max(took))
    return Question(
        lesson=spec.lesson,
        ask=spec.ask or "In which of these does a reader wait longest from one arrival of text to the next?",
        context=compared[0].context(0),
        options=tuple(names),
        truth=longest,
        said=f"{_begun(names[longest])}: {_per_pass(compared[longest]):.1f} tokens arrive together on average, and "
        "then nothing until the next round has drafted and verified.",
        bars=bars_of(names, took, [f"{ms:.0f} ms, median" if ms >= 10 else f"{ms:.1f} ms, median" for ms in took]),
    )


def rows(spec: Spec, lane: Lane) -> Iterator[Callable[[], Question]]:
    """Up to how many tokens a pass of the target reads in less than twice the time of one."""
    costs = next((event for event in lane.events if isinstance(event, VerifyCosts)), None)
    if costs is not None:
        yield lambda: _rows(spec, lane, costs)


def _rows(spec: Spec, lane: Lane, costs: VerifyCosts) -> Question:
    every = list(zip(costs.widths, costs.v, strict=True))
    measured = every[:: 1 + (len(every) - 1) // WIDTHS]
    ms = [v * _round_ms(lane) for _, v in measured]
    below = [n for n, (_, v) in enumerate(measured) if v < TWICE]
    options = [f"{width} token{'s' if width > 1 else ''}" for width, _ in measured]
    (few, _), (many, factor) = measured[0], measured[below[-1]]
    why = f"A pass over {many} tokens takes {factor:.1f} times as long as one over {few}: the weights are read once, "
    return Question(
        lesson=spec.lesson,
        ask=spec.ask
        or "The model can read several tokens in one pass. Up to how many, in less than twice the time of one?",
        context=lane.context(0),
        options=tuple(options),
        truth=below[-1],
        said=f"{why}however many tokens share the pass.",
        bars=bars_of(options, ms, [f"{time:.1f} ms" for time in ms]),
    )


def off(spec: Spec, lanes: Lanes) -> Question:
    """Whose text is not what its model would write, by the model's own probabilities."""
    compared = _compared(spec, lanes)
    nats = [_log_p(lane) for lane in compared]
    names = _names(spec, compared)
    worst = max(range(len(nats)), key=lambda n: abs(nats[n]))
    side = "below" if nats[worst] < 0 else "above"
    return Question(
        lesson=spec.lesson,
        ask=spec.ask or "Which of these servers does not write what its model would?",
        context=compared[0].context(0),
        options=(*names, NEITHER),
        truth=worst,
        said=f"The method is exact, but this program has a defect: its tokens' log p lies {abs(nats[worst]):.1f} nats "
        f"{side} what the model's own have on average. No reader would notice; an audit of many texts does.",
        bars=bars_of((*names, NEITHER), [*map(abs, nats), 0.0], [*(f"{abs(x):.2f} nats off" for x in nats), ""]),
    )


def _log_p(lane: Lane) -> float:
    forced = next((event for event in lane.events if isinstance(event, TargetProbs)), None)
    if forced is None or forced.log_p is None:
        raise DraftscopeError(f"Lane '{lane.start.lane}' has no probabilities of its target; record it with them.")
    return forced.log_p


def gap(spec: Spec, lane: Lane) -> Iterator[Callable[[], Question]]:
    """Which tokens a reader waits longest for: the longest gap between arrivals beside ordinary ones, if it stands out.
    `gapQuestion` of asking.js asks the same of a live run."""
    gaps = [later.end - earlier.end for earlier, later in pairwise(lane.arrivals)]
    if lane.end is None or len(gaps) < 2 * PLACES:
        return
    longest, usual = max(range(len(gaps)), key=gaps.__getitem__), statistics.median(gaps)
    if gaps[longest] < STANDS_OUT * usual:
        return
    texts = [readable("".join(arrival.emitted_raw)) for arrival in lane.arrivals[1:]]
    places = [longest]
    for n in sorted(range(len(gaps)), key=lambda n: abs(gaps[n] - usual)):
        if len(places) < PLACES and texts[n] not in [texts[other] for other in places]:
            places.append(n)
    if len(places) < 2:
        return
    places.sort()
    options = tuple(texts[n] for n in places)
    ms = [gaps[n] for n in places]
    yield lambda: Question(
        lesson=spec.lesson,
        ask=spec.ask or "Tokens arrive in bursts. Which of these bursts does a reader wait for longest?",
        context=lane.context(places[-1] + 1),
        options=options,
        truth=places.index(longest),
        said=f"The median of all {len(gaps)} waits is {usual:.0f} ms.",
        bars=bars_of(options, ms, [f"{wait:.0f} ms" for wait in ms]),
    )


def _compared(spec: Spec, lanes: Lanes) -> list[Lane]:
    """The lanes that the question names, or all that have ended."""
    missing = [name for name in spec.lanes if name not in lanes]
    if missing:
        raise DraftscopeError(f"lanes = {', '.join(missing)}: the run has {', '.join(lanes)}.")
    compared = [lanes[name] for name in spec.lanes or lanes if lanes[name].end is not None and lanes[name].arrivals]
    if len(compared) < 2:
        raise DraftscopeError(
            f"A question of kind '{spec.kind}' needs two lanes that have ended; name them in `lanes`."
        )
    return compared


def _names(spec: Spec, compared: Sequence[Lane]) -> list[str]:
    return [spec.lanes.get(lane.start.lane, lane.start.lane) for lane in compared]


def _tokens(lane: Lane) -> int:
    return sum(len(arrival.emitted) for arrival in lane.arrivals)


def _per_second(lane: Lane) -> float:
    """Tokens a second of the whole run, its prompt included."""
    return _tokens(lane) / (lane.arrivals[-1].end / 1e3)


def _per_pass(lane: Lane) -> float:
    return _tokens(lane) / len(lane.arrivals)


def _round_ms(lane: Lane) -> float:
    return statistics.median(arrival.end - arrival.start for arrival in lane.arrivals)
