"""How many cards a traffic needs, in sentences and as a figure: for the command and the page."""

from __future__ import annotations

import plotly.graph_objects as go

from draftscope.forecast.cluster.sizing import CardsNeeded, Needed, latency_curve
from draftscope.forecast.forecast import Scenario
from draftscope.trace.figure_style import OURS, PEER, PLAIN, dashed, empty_figure
from draftscope_app.engine.plural import count

HOW = (
    "Simulated, not run: arrivals at random moments, each to the least busy server, all answers equally long. Of the "
    "forecast only its speedups were held to published measurements, and not how long a step takes."
)


def traffic_sentences(scenario: Scenario, answer: CardsNeeded) -> list[str]:
    """What was asked, the cards with and without speculation, what a server holds, and how that is known."""
    traffic, on, kind = answer.traffic, scenario.machine, scenario.drafting.kind.name
    shared = f" ({traffic.shared:,} shared by all)" if traffic.shared else ""
    drafts = f"drafts up to {answer.most}" if answer.most else "never drafts, because it would lose"
    drafts = "drafts at any load" if answer.most == answer.fits else drafts
    return [
        f"Traffic: {traffic.per_second:g} requests a second, prompts of {traffic.prompt:,} tokens{shared}, answers of "
        f"{traffic.answer:,}; nine of ten answers end within {answer.within_s:.1f} s.",
        f"Without speculation: {_cards(scenario, answer.plain)}.",
        f"With {kind}: {_cards(scenario, answer.drafted)}; {_interval(scenario, answer)}.",
        f"A server is {on.cards} x {on.card.name} with {on.engine.name}. It writes up to {answer.fits} answers at "
        f"once, and {drafts}.",
        HOW,
    ]


def _cards(scenario: Scenario, needed: Needed) -> str:
    if needed.servers is None:
        return "no number of cards is enough, because an answer takes longer even where it is alone"
    cards = count(needed.servers * scenario.machine.cards, "card")
    return f"{cards} ({count(needed.servers, 'server')}), nine of ten answers within {needed.latency_s:.1f} s"


def _interval(scenario: Scenario, answer: CardsNeeded) -> str:
    """Of the cards, where the speedup is at the ends of its interval."""
    ends = [
        count(needed.servers * scenario.machine.cards, "card") if needed.servers else "no number that is enough"
        for needed in (answer.fast, answer.slow)
    ]
    return (
        "as many over the forecast's interval"
        if ends[0] == ends[1]
        else f"{ends[0]} to {ends[1]} over the forecast's interval"
    )


def draw_traffic(scenario: Scenario, answer: CardsNeeded) -> go.Figure:
    """The latency of nine of ten answers over the number of cards, with and without speculation, and the limit."""
    curve = latency_curve(scenario, answer)
    traffic = answer.traffic
    words = (
        f"{traffic.per_second:g} a second, {traffic.prompt:,} tokens in, {traffic.answer:,} out; simulated, not run."
    )
    figure = empty_figure(
        "cards", "seconds in which nine of ten answers end", 440, title=f"How many cards<br><sup>{words}</sup>",
        showlegend=True, legend={"orientation": "v", "x": 1, "xanchor": "right", "y": 1, "yanchor": "top"},
        margin={"l": 64, "r": 16, "t": 72},
    )  # fmt: skip
    cards = [servers * scenario.machine.cards for servers in curve.servers]
    lines = (("without speculation", curve.plain, PLAIN), (f"with {scenario.drafting.kind.name}", curve.drafted, OURS))
    for place, (name, seconds, colour) in enumerate(lines):
        figure.add_trace(
            go.Scatter(x=cards, y=seconds, name=name, mode="lines+markers", line=dashed(place, colour),
                       hovertemplate="%{x} cards: %{y:.1f} s<extra></extra>")
        )  # fmt: skip
    figure.add_hline(y=answer.within_s, line={"color": PEER, "width": 2, "dash": "dot"})
    figure.add_annotation(
        x=1, xref="paper", y=answer.within_s, text="asked for", showarrow=False, yanchor="bottom", font={"color": PEER}
    )
    figure.update_xaxes(tickvals=cards)
    figure.update_yaxes(range=[0, 3 * answer.within_s])  # where servers do not keep up, latency has no limit
    return figure
