"""A forecast in sentences and as a curve: for the command and the page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go

from draftscope.forecast.acceptance_priors import prior_row
from draftscope.forecast.economics import ANSWERS, CONTEXTS, LOADS
from draftscope.forecast.forecast import MOST, Forecast, Scenario, speedup_of
from draftscope.trace.figure_style import OURS, PLAIN, dashed, empty_figure
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


def verdict(result: Forecast) -> str:
    """Turn it on or leave it off, where the whole interval says so."""
    if result.speedup.low > 1:
        return f"It should pay: {result.speedup} times plain decoding."
    if result.speedup.high < 1:
        return f"It should not pay: {result.speedup} times plain decoding."
    return f"Measure first: {result.speedup} times plain decoding, which may be a loss."


def draw_curve(scenario: Scenario, axis: str = LOAD) -> go.Figure:
    """The speedup along an axis of `AXES` with its 90% band, the line at 1, and the value that was asked for."""
    field, usual = AXES[axis]
    wanted = getattr(scenario, field)
    xs: list[Any] = sorted({*usual, wanted} - {0})
    bands = [speedup_of(replace(scenario, **{field: x})) for x in xs]
    figure = empty_figure(axis, "times plain decoding", 340, margin={"l": 56, "r": 12, "t": 12, "b": 48})
    ends = [band.high for band in bands] + [band.low for band in reversed(bands)]
    figure.add_trace(
        go.Scatter(
            x=[*xs, *reversed(xs)], y=ends, fill="toself", mode="none", fillcolor="#9B63C933", hoverinfo="skip"
        )
    )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=xs, y=[band.middle for band in bands], mode="lines+markers", line=dashed(0, OURS),
            marker={"size": [12 if x == wanted else 6 for x in xs]},
            customdata=[str(band) for band in bands], hovertemplate="%{x}: %{customdata}<extra></extra>",
        )
    )  # fmt: skip
    figure.add_hline(y=1, line={"color": PLAIN, "width": 2})
    figure.update_xaxes(type="log", tickvals=list(usual), ticktext=[f"{x:,}" for x in usual])
    figure.update_yaxes(rangemode="tozero")
    return figure
