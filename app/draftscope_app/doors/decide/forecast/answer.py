"""A forecast in sentences and as a curve: for the command and the page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from draftscope.forecast.acceptance_priors import prior_row
from draftscope.forecast.economics import ANSWERS, CONTEXTS, LOADS
from draftscope.forecast.forecast import MOST, Forecast, Scenario, speedup_of
from draftscope_app.engine.plural import count

LOAD = "concurrent requests"
AXES: Mapping[str, tuple[str, Sequence[int]]] = {  # field of a scenario, values of a curve
    LOAD: ("concurrency", LOADS),
    "tokens of context": ("context", CONTEXTS),
    "tokens of an answer": ("answer", ANSWERS),
}


def sentences(scenario: Scenario, result: Forecast) -> list[str]:
    """What was asked, the speedup, where a round's time goes, tokens a second, and where it stops paying."""
    target, plan, on = scenario.target, scenario.drafting, scenario.machine
    what = f"{target.name}, {target.parameters / 1e9:.1f} billion weights ({target.source})"
    where = f"{on.cards} x {on.card.name} with {on.engine.name}"
    how = f"{plan.kind.name}, {count(plan.steps, 'draft step')}, {count(plan.rows, 'token')} to check at once"
    load = f"{count(scenario.concurrency, 'concurrent request')}, {scenario.context:,.0f} tokens of context each"
    whole = f" of answers of {count(scenario.answer, 'token')} with reading their prompts" if scenario.answer else ""
    estimated = "" if scenario.tau else f", estimated from {_rows(scenario)}"
    rest = result.round_ms - result.drafting_ms - result.verify_ms
    rates = f"{result.tokens_s.middle:,.0f} [{result.tokens_s.low:,.0f}, {result.tokens_s.high:,.0f}]"
    cost = result.round_ms / result.plain_ms
    return [
        f"{what}, on {where}; {how}; {load}.",
        f"Speedup{whole}: {result.speedup}. A round writes {result.tau} tokens (tau{estimated}) and costs as much as "
        f"{cost:.2f} steps of plain decoding.",
        f"A step of plain decoding takes {result.plain_ms:.2f} ms and a round {result.round_ms:.2f}: drafting "
        f"{result.drafting_ms:.2f}, verifying {result.verify_ms:.2f}, the engine {rest:.2f}.",
        f"Tokens a second, all requests together: {result.plain_tokens_s:,.0f} plain, {rates} with {plan.kind.name}.",
        _stops(result),
        result.known,
    ]


def _rows(scenario: Scenario) -> str:
    row = prior_row(scenario.drafting, scenario.text)
    return f"{count(int(row['rows']), 'published row')} of {scenario.drafting.kind.name} on {scenario.text}"


def _stops(result: Forecast) -> str:
    """Where it stops paying, as far as the memory goes."""
    at, most = result.stops_at, min(result.fits, MOST)
    if at and at.middle <= most:
        return f"It stops paying at {at} concurrent requests; the memory holds {result.fits:,} such requests at once."
    why = "the most that the memory holds" if most < MOST else "the most that were looked at"
    return f"It does not stop paying within {most:,} concurrent requests, {why}."


def headline(result: Forecast) -> str:
    """The answer, where the whole interval says so, without that interval."""
    ratio = f"{result.speedup.middle:.1f} times as fast"
    if result.speedup.low > 1:
        return f"Yes: about {ratio}"
    return f"No: about {ratio}" if result.speedup.high < 1 else f"Perhaps: about {ratio}"


def interval(result: Forecast) -> str:
    """What a reader may expect, and what follows where the interval holds both a gain and a loss."""
    ends = f"between {result.speedup.low:.2f} and {result.speedup.high:.2f} in nine of ten cases like it"
    return f"{ends}; measure before you decide" if result.speedup.low <= 1 <= result.speedup.high else ends


def points(scenario: Scenario, axis: str = LOAD) -> list[tuple[int, float, float, float]]:
    """The speedup along an axis of `AXES`: value, lower end, middle and upper end. The value that was asked for is
    among them."""
    field, usual = AXES[axis]
    values: list[Any] = sorted({*usual, getattr(scenario, field)} - {0})
    bands = [(x, speedup_of(replace(scenario, **{field: x}))) for x in values]
    return [(x, band.low, band.middle, band.high) for x, band in bands]
