"""The figures of `draftscope forecast --figures`: a page each, and Plotly beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import plotly.graph_objects as go

from draftscope.base.errors import one_sentence
from draftscope.forecast.economics import SEEDS, Curve, Seed
from draftscope.trace.figure_style import OURS, PEER, PLAIN, dashed, empty_figure

COLOURS = (OURS, PEER, PLAIN, "#5B8DB8")
GROUND = "#F4F1EA"


def write_figures(folder: Path) -> Iterator[Path]:
    """Writes each as HTML into `folder`; the paths, or a DraftscopeError."""
    for seed in SEEDS:
        yield write_figure(draw_seed(seed), folder, seed.name)


def write_figure(figure: go.Figure, folder: Path, name: str) -> Path:
    """Writes one as `name`.html; its path, or a DraftscopeError."""
    path = folder / f"{name}.html"
    figure.update_layout(plot_bgcolor=GROUND, paper_bgcolor=GROUND)
    with one_sentence(f"'{path}' cannot be written", "give another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        figure.write_html(path, include_plotlyjs="directory")
    return path


def draw_seed(seed: Seed) -> go.Figure:
    """Its curves with their intervals, and the line where speculation pays nothing."""
    title = f"{seed.title}<br><sup>Forecast for H100s with vLLM, not run. {seed.note} Bars: 90%.</sup>"
    figure = empty_figure(seed.x, "speedup over plain decoding", 520, title=title, showlegend=True, margin={"t": 110})
    for place, curve in enumerate(seed.curves()):
        figure.add_trace(_line(curve, place))
    figure.add_hline(y=1, line={"color": "#1B1F24", "width": 1})
    figure.update_xaxes(type="log", tickvals=list(curve.x), ticktext=[f"{x:,}" for x in curve.x])
    return figure


def _line(curve: Curve, place: int) -> go.Scatter:
    """One line; its points stand a little beside those of the others, so that their bars can be told apart."""
    middle = [band.middle for band in curve.y]
    bars = {
        "type": "data", "array": [band.high - band.middle for band in curve.y],
        "arrayminus": [band.middle - band.low for band in curve.y], "thickness": 1,
    }  # fmt: skip
    colour = COLOURS[place % len(COLOURS)]
    return go.Scatter(
        x=[x * 1.03**place for x in curve.x], y=middle, name=curve.name, mode="lines+markers", error_y=bars,
        line=dashed(place, colour),
    )  # fmt: skip
