"""The three plots after a run, in Plotly, from the statistics of views.py. page.css colours text and axes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from draftscope.trace.events import AnyEvent
from draftscope.trace.figure_style import LEGEND, OURS, PLAIN, empty_figure
from draftscope_app.engine.plural import count
from draftscope_app.page.plots.views import acceptance_by_position, accepted_lengths, by_lane, chunk_gaps, drafter_of


def pictures(events: Sequence[AnyEvent]) -> tuple[go.Figure | None, go.Figure | None, go.Figure | None]:
    """Gaps of all lanes, acceptance by position, accepted lengths; None for each of which a run has no data."""
    lanes = by_lane(events)
    drafting = next((lane for lane in lanes.values() if drafter_of(lane) != "plain"), None)
    return _gaps(lanes), _positions(drafting), _lengths(drafting)


def _gaps(lanes: dict[str, list[AnyEvent]]) -> go.Figure | None:
    figure = _figure(
        "Gaps between streamed chunks (ICL)", "milliseconds on the lane's own clock", "share of the lane's gaps"
    )
    any_gap = False
    for lane, events in lanes.items():
        gaps = chunk_gaps(events)
        if not gaps:
            continue
        any_gap = True
        plain = drafter_of(events) == "plain"
        colour = PLAIN if plain else OURS
        name = f"{escape(lane[:40])} ({count(len(gaps), 'gap')}, median {sorted(gaps)[len(gaps) // 2]:.2f} ms)"
        hatched = None if plain else {"shape": "/", "fgcolor": colour, "fillmode": "replace"}
        figure.add_trace(
            go.Histogram(
                x=gaps, name=name, histnorm="probability", bingroup="gaps", opacity=0.85,
                marker={"color": colour, "line": {"width": 1, "color": colour}, "pattern": hatched},
            )
        )  # fmt: skip
    figure.update_layout(barmode="overlay", showlegend=True)
    return figure if any_gap else None


def _positions(events: Sequence[AnyEvent] | None) -> go.Figure | None:
    table = acceptance_by_position(events) if events else []
    table = [row for row in table if row.alpha is not None]
    if not table:
        return None
    figure = _figure(
        "Acceptance by position", "position in the draft", "accepted / verified, if all before were accepted"
    )
    figure.add_trace(
        go.Bar(
            x=[row.position for row in table], y=[row.alpha for row in table], marker={"color": OURS}, width=0.55,
            text=[f"{row.accepted} / {row.reached}" for row in table], textposition="outside", cliponaxis=False,
        )
    )  # fmt: skip
    figure.update_yaxes(range=[0, 1.12])
    figure.update_xaxes(dtick=1)
    return figure


def _lengths(events: Sequence[AnyEvent] | None) -> go.Figure | None:
    counts = accepted_lengths(events) if events else {}
    if not counts:
        return None
    rounds = sum(counts.values())
    figure = _figure(
        "Accepted drafts a round",
        f"accepted of one round's draft (over {count(rounds, 'round')} that drafted)",
        "rounds",
    )
    figure.add_trace(
        go.Bar(
            x=list(counts), y=list(counts.values()), marker={"color": OURS}, width=0.55,
            text=list(counts.values()), textposition="outside", cliponaxis=False,
        )
    )  # fmt: skip
    figure.update_xaxes(dtick=1)
    return figure


def _figure(title: str, x: str, y: str) -> go.Figure:
    legend = LEGEND | {"y": 1.06, "x": 1, "xanchor": "right"}
    figure = empty_figure(x, y, 300, title_text=title, margin={"l": 56, "r": 12, "t": 44, "b": 48}, legend=legend)
    figure.update_yaxes(rangemode="tozero")
    return figure
