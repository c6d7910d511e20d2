"""The chart of an experiment in Plotly, from plain values. Pure. Shape tells the series apart, colour only helps."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from draftscope_app.reports.bench_plots import DASHES, OURS, PEER, PLAIN, empty_figure, marks

ChartJson = Mapping[str, Any]  # a `draftscope.claims.chart.Chart`
HEIGHT = 400
NARROW = 36  # characters below a chart on a phone
FAMILY = "llama-draftscope-"


def figure(chart: ChartJson) -> go.Figure:
    """Lines or points with their intervals; where y is a ratio, a dotted line at plain decoding."""
    drawn = empty_figure("<br>".join(wrap(chart["x"], NARROW)), chart["y"], HEIGHT)
    for number, line in enumerate(chart["lines"]):
        drawn.add_trace(_trace(chart, line, number))
    if chart["ratio"]:
        drawn.add_hline(y=1, line={"color": PLAIN, "width": 1, "dash": "dot"})
    if chart["log_x"]:
        ticks = sorted({x for line in chart["lines"] for x in line["x"]})
        drawn.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    if chart["log_y"]:
        drawn.update_yaxes(type="log", exponentformat="SI", dtick=1)
    labelled = all(_is_point(chart, line) for line in chart["lines"])  # then a legend would say it all again
    if labelled:
        drawn.update_yaxes(rangemode="normal")  # from the lowest point on, so that labels keep apart
    drawn.update_layout(margin={"l": 12, "r": 12, "t": 12, "b": 48}, showlegend=not labelled)
    return drawn


def _trace(chart: ChartJson, line: Mapping[str, Any], number: int) -> go.Scatter:
    colour = PLAIN if line["modelled"] else PEER if line["name"].startswith(("plain", "target", "dense")) else OURS
    mode = "lines+markers" if chart["joined"] else "markers"
    named, more = _is_point(chart, line), " %{text}" if line["text"] else ""
    return go.Scatter(
        x=line["x"], y=line["y"], name=escape(line["name"]), mode=f"{mode}+text" if named else mode,
        text=[escape(f"{_short(line['name']) if named else ''} {each}".strip()) for each in line["text"]],
        textposition=_label_at(chart, line, number), textfont={"size": 11}, cliponaxis=False,
        line={"dash": DASHES[number % len(DASHES)], "color": colour, "width": 2},
        marker=marks(number, colour),
        error_y=_bars(line, colour), hovertemplate=f"%{{x}}: %{{y:.3g}}{more}<extra>%{{fullData.name}}</extra>",
    )  # fmt: skip


def _is_point(chart: ChartJson, line: Mapping[str, Any]) -> bool:
    """A single point, which is labelled where it lies."""
    return len(line["x"]) == 1 and not chart["joined"]


def _label_at(chart: ChartJson, line: Mapping[str, Any], number: int) -> str:
    """Of a single point: on the side where there is room, and not on the height of its neighbour's."""
    if not _is_point(chart, line):
        return "top center"
    most = max(each["x"][0] for each in chart["lines"])
    return f"{('top', 'bottom')[number % 2]} {'left' if line['x'][0] > most / 2 else 'right'}"


def _short(name: str) -> str:
    """Our own models without the family's name."""
    return name.removeprefix(FAMILY)


def _bars(line: Mapping[str, Any], colour: str) -> dict[str, Any] | None:
    if not line["low"]:
        return None
    return {
        "array": [high - y for high, y in zip(line["high"], line["y"], strict=True)],
        "arrayminus": [y - low for low, y in zip(line["low"], line["y"], strict=True)],
        "color": colour, "thickness": 1, "width": 3, "symmetric": False,
    }  # fmt: skip
