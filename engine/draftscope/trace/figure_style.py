"""What all figures share: the Plotly template `draftscope`, colours, and the shapes that tell series apart.

The style sheets of the page and of a report colour text and grids, so that a figure fits both grounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

from draftscope.trace.html import palette

# Readable on both grounds (3:1 for marks); no fate's own colour, because these are times, counts and ratios.
PLAIN, OURS, PEER = "#7A828E", "#9B63C9", "#8A7350"
SYMBOLS = (
    "circle-open", "diamond", "square-open", "triangle-up", "x", "star",
    "circle", "diamond-open", "square", "triangle-down-open", "cross", "hourglass",
)  # fmt: skip
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
LINE_PX = 36  # height of a system's line
CLEAR = "rgba(0,0,0,0)"
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "xanchor": "left"}


@dataclass(frozen=True)
class Plot:
    """A figure, and in a sentence what it shows and where its numbers come from."""

    title: str
    note: str
    figure: go.Figure


@cache
def _template() -> str:
    """Registers the template; its name."""
    axis = {"zeroline": False, "gridcolor": "#8884", "title": {"font": {"size": 12}}}
    layout = {
        "paper_bgcolor": CLEAR, "plot_bgcolor": CLEAR, "font": {"size": 12, "family": palette()["sans"]},
        "title": {"font": {"size": 14}, "x": 0, "xref": "paper"}, "showlegend": False, "legend": LEGEND,
        "hoverlabel": {"bgcolor": "#1B1F24", "font": {"color": "#FFFFFF"}}, "xaxis": axis, "yaxis": axis,
    }  # fmt: skip
    pio.templates["draftscope"] = go.layout.Template(layout=layout)
    return "draftscope"


def empty_figure(x: str, y: str, height: int, **layout: Any) -> go.Figure:
    """A figure without data: the titles of its axes, its height in pixels, and what differs from the template."""
    figure = go.Figure(layout={"template": _template(), "height": height, **layout})
    figure.update_xaxes(title_text=x)
    figure.update_yaxes(title_text=y)
    return figure


def marks(number: int, colour: str | list[str]) -> dict[str, Any]:
    """The markers of the series `number`."""
    return {"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 9, "color": colour, "line": {"width": 2, "color": colour}}


def dashed(number: int, colour: str) -> dict[str, Any]:
    """The line of the series `number`."""
    return {"dash": DASHES[number % len(DASHES)], "color": colour, "width": 2}
