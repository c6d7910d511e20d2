"""The chart of an experiment in Plotly, from plain values. Pure. Shape tells the series apart, colour only helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from draftscope_app.reports.figures import LINE_PX, OURS, PEER, PLAIN, dashed, empty_figure, marks
from draftscope_app.reports.label_layout import Place, placed

ChartJson = Mapping[str, Any]  # a `draftscope.claims.charts.Chart`
HEIGHT = 400
NARROW = 36  # characters below a chart on a phone
AT_ONE = {"color": PLAIN, "width": 1, "dash": "dot"}
ROOM = 0.15  # of the points' spread, above and below them, for labels
FAMILY = "llama-draftscope-"


def figure(chart: ChartJson) -> go.Figure:
    """Lines or points with their intervals; where y is a ratio, a dotted line at plain decoding."""
    names = list(dict.fromkeys(x for line in chart["lines"] for x in line["x"] if isinstance(x, str)))
    drawn = _by_name(chart, names) if names else _by_number(chart)
    for number, line in enumerate(chart["lines"]):
        drawn.add_trace(_trace(chart, line, number, lying=bool(names)))
    labelled = bool(chart["lines"]) and all(_is_point(chart, line) for line in chart["lines"])  # and needs no legend
    if labelled:
        _label(drawn, chart["lines"])
    drawn.update_layout(margin={"l": 12, "r": 12, "t": 12, "b": 48}, showlegend=not labelled)
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
    x, y, bars = (line["y"], names, "error_x") if lying else (names, line["y"], "error_y")
    shown = "%{y}: %{x:.3g}" if lying else "%{x}: %{y:.3g}"
    return go.Scatter(
        x=x, y=y, name=escape(line["name"]), mode="lines+markers" if chart["joined"] else "markers",
        text=[escape(text) for text in line["text"]], marker=marks(number, colour), cliponaxis=False,
        line=dashed(number, colour),
        hovertemplate=f"{shown}{more}<extra>%{{fullData.name}}</extra>", **{bars: _bars(line, colour)},
    )  # fmt: skip


def _is_point(chart: ChartJson, line: Mapping[str, Any]) -> bool:
    """A single point of two numbers, which is labelled where it lies."""
    return len(line["x"]) == 1 and not chart["joined"] and not isinstance(line["x"][0], str)


def _label(drawn: go.Figure, lines: Sequence[Mapping[str, Any]]) -> None:
    """Each point's name and text beside it, kept apart; a thin line leads to a label that found no room nearby."""
    across, up = ([line[axis][0] for line in lines] for axis in ("x", "y"))
    spread = (max(up) - min(up)) or abs(up[0]) or 1.0
    x_range = (min(0.0, *across), (max(across) or 1.0) * 1.08)
    y_range = (min(up) - ROOM * spread, max(up) + ROOM * spread)
    drawn.update_xaxes(range=x_range)
    drawn.update_yaxes(range=y_range)
    texts = [" ".join((_short(line["name"]), *line["text"])) for line in lines]
    places = placed(_shares(across, *x_range), _shares(up, *y_range), texts)
    for x, y, text, place in zip(across, up, texts, places, strict=True):
        drawn.add_annotation(x=x, y=y, text=escape(text), font={"size": 11}, xanchor=place.anchor, **_reach(place))


def _shares(values: Sequence[float], low: float, high: float) -> list[float]:
    """Of the way from `low` to `high`."""
    return [(value - low) / (high - low) for value in values]


def _reach(place: Place) -> dict[str, Any]:
    """How Plotly is told a label's place."""
    if not place.far:
        return {"showarrow": False, "xshift": place.right, "yshift": place.up, "yanchor": "middle"}
    line = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": PLAIN, "standoff": 6}
    return line | {"ax": place.right, "ay": -place.up, "yanchor": "middle"}


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
