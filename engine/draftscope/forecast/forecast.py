"""Whether speculation pays on hardware that is not at hand: speed, where it stops paying, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from draftscope.forecast.acceptance import prior_tau
from draftscope.forecast.architecture import Architecture
from draftscope.forecast.band import Band
from draftscope.forecast.cost import Machine, drafting_ms, forward_ms, plain_ms, round_ms
from draftscope.forecast.drafting import Drafting

COST_SPREAD = 0.43  # 90% of the training half's rows with a published tau are predicted within exp(+-0.43)
MOST = 4096  # requests at once that are looked at


@dataclass(frozen=True)
class Scenario:
    """What is asked. `tau` None: the prior for this drafter and kind of text; `answer` 0: decoding alone."""

    target: Architecture
    drafting: Drafting
    machine: Machine
    concurrency: int = 1
    context: float = 1024.0  # tokens behind a step
    answer: int = 0  # tokens; counts the prefill of the context
    tau: float | None = None
    text: str = "chat"


@dataclass(frozen=True)
class Forecast:
    """Milliseconds, tokens a second of all requests together, and the speedup with its 90% interval."""

    speedup: Band
    tau: Band
    plain_ms: float
    drafting_ms: float
    verify_ms: float
    round_ms: float
    plain_tokens_s: float
    tokens_s: Band
    stops_at: Band | None  # requests at once from which the speedup is below 1; None beyond what was looked at
    memory_gb: float  # weights and caches on all cards
    notes: tuple[str, ...]


def forecast(asked: Scenario) -> Forecast:
    """The forecast, with every term that went into it."""
    tau, on, n = _tau(asked), asked.machine, asked.concurrency
    plain, whole = plain_ms(asked.target, on, n, asked.context), _round_ms(asked)
    speedup = speedup_of(asked)
    rate = 1e3 * n / plain
    memory = asked.target.parameters * asked.target.weight_bytes + n * asked.context * asked.target.cache_bytes()
    room = on.cards * on.card.memory_gb
    short = f"weights and caches take {memory / 1e9:.0f} GB, and {on.cards} x {on.card.name} have {room:.0f}"
    return Forecast(
        speedup, tau, plain, drafting_ms(asked.drafting, on, n, asked.context),
        forward_ms(asked.target, on, n, asked.drafting.rows, asked.context), whole, rate,
        Band(*(rate * each for each in (speedup.middle, speedup.low, speedup.high))), stops_at(asked), memory / 1e9,
        (short,) if memory / 1e9 > room else (),
    )  # fmt: skip


def speedup_of(asked: Scenario) -> Band:
    """tau over the cost of a round in steps of plain decoding; with an answer's length, of the whole answer."""
    plain = plain_ms(asked.target, asked.machine, asked.concurrency, asked.context)
    ratio = _tau(asked).divided_by(_round_ms(asked) / plain, COST_SPREAD)
    if not asked.answer:
        return ratio
    once, more = _prefill_ms(asked)
    steps, least = (asked.answer - 1) * plain, min(asked.answer - 1, 1) * _round_ms(asked)  # prefill emits the first

    def whole(each: float) -> float:
        return (once + steps) / (once + more + max(steps / each, least))

    return Band(whole(ratio.middle), whole(ratio.low), whole(ratio.high))


def _prefill_ms(asked: Scenario) -> tuple[float, float]:
    """Of the target, and what the drafter adds, for one request."""
    once = forward_ms(asked.target, asked.machine, 1, asked.context, 0)
    model = asked.drafting.model
    return once, forward_ms(model, asked.machine, 1, asked.context, 0) if model else 0.0


def stops_at(asked: Scenario) -> Band | None:
    """Requests at once from which on the middle, the upper and the lower end of the speedup are below 1.

    The interval's low end is where the lower end of the speedup falls below 1. None if the middle never does.
    """
    middle, low, high = (_first(asked, end) for end in (lambda b: b.middle, lambda b: b.low, lambda b: b.high))
    return None if middle is None else Band(middle, low or 1, high or MOST)


def _first(asked: Scenario, end: Callable[[Band], float]) -> float | None:
    """The least number of requests, to the eighth of an octave."""
    sizes = sorted({round(2 ** (k / 8)) for k in range(12 * 8 + 1)})
    return next((size for size in sizes if end(speedup_of(replace(asked, concurrency=size))) < 1), None)


def dollars_per_million(tokens_s: float, cards: int, dollars_per_hour: float) -> float:
    """What a million tokens cost on `cards` cards of this price."""
    return cards * dollars_per_hour / (3600 * tokens_s) * 1e6


def _tau(asked: Scenario) -> Band:
    return Band(asked.tau, asked.tau, asked.tau) if asked.tau is not None else prior_tau(asked.drafting, asked.text)


def _round_ms(asked: Scenario) -> float:
    return round_ms(asked.target, asked.drafting, asked.machine, asked.concurrency, asked.context)
