"""The chart of an experiment in Plotly, from plain values. Pure. Shape tells the series apart, colour only helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from draftscope.trace.figure_style import LINE_PX, OURS, PEER, PLAIN, dashed, empty_figure, marks

ChartJson = Mapping[str, Any]  # a `draftscope.claims.charts.Chart`
HEIGHT = 400
NARROW = 36  # characters below a chart on a phone
AT_ONE = {"color": PLAIN, "width": 1, "dash": "dot"}
FAMILY = "llama-draftscope-"


def figure(chart: ChartJson) -> go.Figure:
    """Lines or points with their intervals; where y is a ratio, a dotted line at plain decoding."""
    names = list(dict.fromkeys(x for line in chart["lines"] for x in line["x"] if isinstance(x, str)))
    drawn = _by_name(chart, names) if names else _by_number(chart)
    for number, line in enumerate(chart["lines"]):
        drawn.add_trace(_trace(chart, line, number, lying=bool(names)))
    drawn.update_layout(margin={"l": 12, "r": 12, "t": 12, "b": 48}, showlegend=True)
    drawn.update_xaxes(automargin=True)
    drawn.update_yaxes(automargin=True)
    return drawn


def _by_number(chart: ChartJson) -> go.Figure:
    """Its axes: x to the right, y up."""
    drawn = empty_figure("<br>".join(wrap(chart["x"], NARROW)), chart["y"], HEIGHT)
    drawn.update_yaxes(rangemode="tozero")
    if chart["ratio"]:
        drawn.add_hline(y=1, line=AT_ONE)
    if chart["log_x"]:
        ticks = sorted({x for line in chart["lines"] for x in line["x"]})
        drawn.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    if chart["log_y"]:
        drawn.update_yaxes(type="log", exponentformat="SI", dtick=1)
    return drawn


def _by_name(chart: ChartJson, names: Sequence[str]) -> go.Figure:
    """Its axes where x are names: one below the other, since a phone has no room for them side by side."""
    drawn = empty_figure(chart["y"], "", LINE_PX * len(names) + 120)
    if chart["ratio"]:
        drawn.add_vline(x=1, line=AT_ONE)
    drawn.update_xaxes(rangemode="tozero")
    drawn.update_yaxes(categoryorder="array", categoryarray=[escape(name) for name in reversed(names)])
    return drawn


def _trace(chart: ChartJson, line: Mapping[str, Any], number: int, lying: bool) -> go.Scatter:
    colour = PLAIN if line["modelled"] else PEER if line["name"].startswith(("plain", "target", "dense")) else OURS
    more = " %{text}" if line["text"] else ""
    names = [escape(x) if isinstance(x, str) else x for x in line["x"]]
    lone = not lying and not chart["joined"] and len(names) == 1  # its text stands in the legend
    title = " ".join((line["name"].removeprefix(FAMILY), *(line["text"] if lone else ())))
    x, y, bars = (line["y"], names, "error_x") if lying else (names, line["y"], "error_y")
    shown = "%{y}: %{x:.3g}" if lying else "%{x}: %{y:.3g}"
    return go.Scatter(
        x=x, y=y, name=escape(title), mode="lines+markers" if chart["joined"] else "markers",
        text=[escape(text) for text in line["text"]], marker=marks(number, colour), cliponaxis=False,
        line=dashed(number, colour),
        hovertemplate=f"{shown}{more}<extra>%{{fullData.name}}</extra>", **{bars: _bars(line, colour)},
    )  # fmt: skip


def _bars(line: Mapping[str, Any], colour: str) -> dict[str, Any] | None:
    if not line["low"]:
        return None
    return {
        "array": [high - y for high, y in zip(line["high"], line["y"], strict=True)],
        "arrayminus": [y - low for low, y in zip(line["low"], line["y"], strict=True)],
        "color": colour, "thickness": 1, "width": 3, "symmetric": False,
    }  # fmt: skip
