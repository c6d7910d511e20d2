"""The map of the speedup in Plotly: gamma by concurrent requests, acceptance by draft cost, answer length by
context. Pure.

The line is break-even; dotted lines are break-even at the ends of the interval of the tokens a round.
`drawn(report, which, AS_MEASURED)` is the map without any "what if".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from draftscope.advise.what_if import CARDS, ENGINE, WhatIf, answer_ratio, ratios, refusal, round_costs, taus
from draftscope_app.engine.plural import count
from draftscope_app.reports.figures import empty_figure

Report = Mapping[str, Any]  # what `draftscope advise --json` prints

READERS, ACCEPTANCE, LENGTH = "gamma by concurrent requests", "acceptance by draft cost", "answer length by context"
MAPS = (READERS, ACCEPTANCE, LENGTH)
HERE = "this machine, measured"
MACHINES = (HERE, *(f"{card.name}, modelled" for card in CARDS))
INK, GROUND = "#1B1F24", "#F4F1EA"  # the light edge shows a mark beside the field of a dark page too
SCALE = [[0, "#B8860B"], [0.5, GROUND], [1, "#5B8DB8"]]
CIRCLES = "measured"  # what was run
LENGTHS = (8, 16, 32, 64, 128, 256, 512)
AS_MEASURED = WhatIf()
Z = list[list[float]]


def what_if(alpha: float | None, draft_cost: float, machine: str) -> WhatIf:
    """From the sliders. `alpha` None is the measured acceptance."""
    card = CARDS[MACHINES.index(machine) - 1] if machine in MACHINES[1:] else None
    return WhatIf(alpha, draft_cost, card)


def drawn(report: Report, which: str, asked: WhatIf) -> tuple[go.Figure | None, str]:
    """The map and a sentence about it; no map where the report has no data for it."""
    found = report.get("surface")
    if not found:
        return None, "There is no map: no drafter that makes chains was measured."
    if (why := refusal(found, asked)) is not None:
        return None, why
    figure, note = _map(report, found, which, asked)
    circles = " A circle: run against plain decoding." if figure is not None and _has_circles(figure) else ""
    return figure, _other(report, found) + note + circles


def _other(report: Report, found: Report) -> str:
    """What is said if the map is not of the drafter that the advice is about."""
    chosen: str = report["chosen"]["candidate"]["drafter"]
    if chosen == found["drafter"]:
        return ""
    return f"The advice is about {chosen}, which has no gamma; this map is of {found['drafter']}, the best that has. "


def _map(report: Report, found: Report, which: str, asked: WhatIf) -> tuple[go.Figure | None, str]:
    if which == ACCEPTANCE:
        return _acceptance(report, found, asked), _note_on_acceptance(report, found, asked)
    if which == LENGTH:
        if not found["by_context"]:
            return None, "There is no map by context: costs are known for one context only."
        return _lengths(report, found, asked), _note_on_lengths(found, asked)
    return _readers(report, found, asked), _note_on_readers(found, asked)


def _note_on_readers(report: Report, asked: WhatIf) -> str:
    return f"{report['drafter']}, in a full batch: {_costs(asked)}. {_lines(asked)}{_changes(asked)}"


def _note_on_acceptance(report: Report, found: Report, asked: WhatIf) -> str:
    drafter, requests = found["drafter"], found["readers"][_place_of(report, found)]
    return (
        f"{drafter} at {count(requests, 'concurrent request')}, each place with its best gamma: {_costs(asked)}. The "
        f"line is break-even; the dot is {drafter} itself, with the 95% interval of its acceptance.{_changes(asked)}"
    )


def _note_on_lengths(report: Report, asked: WhatIf) -> str:
    return (
        f"{report['drafter']}, gamma {report['by_context']['gamma']}, one request, with prefill, which is taken to "
        f"grow with the context: {_costs(asked)}. {_lines(asked)}{_changes(asked)}"
    )


def _costs(asked: WhatIf) -> str:
    """Where the costs come from."""
    if asked.card is None:
        return "modelled from measured acceptance and costs"
    card = f"{asked.card.name} ({asked.card.gb_s:,} GB/s, {asked.card.tflop_s:,} TFLOP/s)"
    return f"a forecast for {card} with {ENGINE.name}, not run: bytes, operations, caches, launches of these sizes"


def _lines(asked: WhatIf) -> str:
    ends = "; the dotted ones are at the ends of the 95% interval of the tokens a round" if asked.alpha is None else ""
    return f"The solid line is break-even{ends}."


def _changes(asked: WhatIf) -> str:
    changes = [
        *([f"acceptance {asked.alpha:.2f} at every position"] if asked.alpha is not None else []),
        *([f"a draft step at {asked.draft_cost:.2f} of its cost"] if asked.draft_cost != 1 else []),
    ]
    return f" What if: {', '.join(changes)}." if changes else ""


def _readers(report: Report, found: Report, asked: WhatIf) -> go.Figure:
    table = ratios(found, asked)
    figure = _figure("concurrent requests", "gamma")
    x, y = [str(size) for size in found["readers"]], [str(gamma) for gamma in found["gammas"]]
    hover = [[f"{middle:.2f} [{low:.2f}, {high:.2f}]" for middle, low, high in row] for row in table]
    _field(figure, x, y, [[each[0] for each in row] for row in table], hover)
    if asked.alpha is None:
        _ends(figure, x, y, [[[each[end] for each in row] for row in table] for end in (1, 2)])
    if asked == AS_MEASURED:
        _measured(figure, report, found, x, y)
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category")
    return figure


def _measured(figure: go.Figure, report: Report, found: Report, x: Sequence[str], y: Sequence[str]) -> None:
    """Settings that were run, at the concurrency that was asked for."""
    reader = str(report["question"]["concurrency"])
    ran = [each for each in _ran(report, found) if str(each["candidate"]["gamma"]) in y]
    if ran and reader in x:
        _circles(figure, [reader] * len(ran), [str(each["candidate"]["gamma"]) for each in ran], ran)


def _ran(report: Report, found: Report) -> list[Report]:
    """The settings of the map's drafter that were run against plain decoding."""
    return [each for each in report["measured"] if each["candidate"]["drafter"] == found["drafter"]]


def _circles(figure: go.Figure, x: Sequence[str], y: Sequence[str], ran: Sequence[Report]) -> None:
    figure.add_trace(
        go.Scatter(
            x=x, y=y, mode="markers", name=CIRCLES, customdata=[_said(each["ratio"]) for each in ran],
            marker={"symbol": "circle-open", "size": 26, "color": INK, "line": {"width": 2}},
            hovertemplate="measured: %{customdata}<extra></extra>",
        )
    )  # fmt: skip


def _has_circles(figure: go.Figure) -> bool:
    return any(trace.name == CIRCLES for trace in figure.data)


def _said(ratio: Report) -> str:
    return f"{ratio['median']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"


def _acceptance(report: Report, found: Report, asked: WhatIf) -> go.Figure:
    """The best gamma at each acceptance and draft cost, at the concurrency nearest to the one asked for."""
    place = _place_of(report, found)
    own_c = _own(found, asked, place)[0]
    most = max(0.6, 1.25 * own_c)  # the drafter itself is on the map
    alphas, costs = [round(0.05 * k, 2) for k in range(21)], [most * k / 24 for k in range(1, 25)]
    verify = round_costs({**found, "drafting": _zeros(found)}, WhatIf(card=asked.card, draft_cost=0.0))
    own = [row[place] for row in verify]

    def best(alpha: float, c: float) -> float:
        tau = [each[0] for each in taus(found, WhatIf(alpha=alpha))]
        return float(max(t / (gamma * c + v) for t, gamma, v in zip(tau, found["gammas"], own, strict=True)))

    figure = _figure("c: a draft step, in rounds of plain decoding", "acceptance of a drafted token")
    z = [[best(alpha, c) for c in costs] for alpha in alphas]
    _field(figure, costs, alphas, z, [[f"{value:.2f}" for value in row] for row in z], written=False)
    _place(figure, report, found, asked, place)
    return figure


def _place_of(report: Report, found: Report) -> int:
    """Of the number of readers nearest to the one asked for."""
    readers, wanted = found["readers"], report["question"]["concurrency"]
    return min(range(len(readers)), key=lambda index: abs(readers[index] - wanted))


def _own(report: Report, asked: WhatIf, place: int) -> tuple[float, tuple[float, float, float]]:
    """The drafter's own c, and the acceptance that its tokens a round stand for: median, low, high."""
    from draftscope.base.alpha import alpha_of

    gamma = report["gammas"][0]
    whole = round_costs(report, asked)[0][place]
    alone = round_costs({**report, "drafting": _zeros(report)}, WhatIf(card=asked.card, draft_cost=0.0))[0][place]
    middle, low, high = (min(1.0, alpha_of(tau, gamma)) for tau in taus(report, asked)[0])
    return (whole - alone) / gamma, (middle, low, high)


def _place(figure: go.Figure, report: Report, found: Report, asked: WhatIf, place: int) -> None:
    """Where the drafter is, and what it gave if it was run as it is there."""
    c, (alpha, least, most) = _own(found, asked, place)
    ran = _ran(report, found) if asked == AS_MEASURED else []
    measured = "".join(f"<br>measured, gamma {each['candidate']['gamma']}: {_said(each['ratio'])}" for each in ran)
    figure.add_trace(
        go.Scatter(
            x=[c], y=[alpha], mode="markers", name=found["drafter"],
            error_y={"type": "data", "array": [most - alpha], "arrayminus": [alpha - least], "color": INK},
            marker={"symbol": "circle", "size": 11, "color": INK, "line": {"width": 1.5, "color": GROUND}},
            hovertemplate=f"{found['drafter']}: acceptance %{{y:.2f}}, c %{{x:.3f}}{measured}<extra></extra>",
        )
    )  # fmt: skip


def _lengths(report: Report, found: Report, asked: WhatIf) -> go.Figure:
    """What was run with this gamma and one reader is marked at its own prompt and length."""
    own = found["by_context"]
    ran = [each for each in _ran(report, found) if each["candidate"]["gamma"] == own["gamma"]]
    shown = ran if asked == AS_MEASURED and report["question"]["concurrency"] == 1 else []
    lengths = sorted({*LENGTHS, *(each["tokens"] for each in shown)})

    def at(tau: float) -> Z:
        places = range(len(own["contexts"]))
        return [[answer_ratio(found, tau, place, tokens, asked) for place in places] for tokens in lengths]

    middle, *ends = (at(tau) for tau in taus(found, asked)[found["gammas"].index(own["gamma"])])
    figure = _figure("tokens of context", "tokens of an answer")
    x, y = [str(context) for context in own["contexts"]], [str(tokens) for tokens in lengths]
    rows = zip(middle, *ends, strict=True)
    hover = [[f"{m:.2f} [{low:.2f}, {high:.2f}]" for m, low, high in zip(*row, strict=True)] for row in rows]
    _field(figure, x, y, middle, hover)
    if asked.alpha is None:
        _ends(figure, x, y, ends)
    if shown:
        _circles(figure, [str(own["prompt"])] * len(shown), [str(each["tokens"]) for each in shown], shown)
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category")
    return figure


def _zeros(report: Report) -> Z:
    return [[0.0] * len(report["readers"]) for _ in report["gammas"]]


def _field(
    figure: go.Figure, x: Sequence[Any], y: Sequence[Any], z: Z, hover: list[list[str]], written: bool = True
) -> None:
    """Colours by doublings with 1 in the middle, and the line at 1."""
    numbers: dict[str, Any] = {
        "text": [[f"{value:.2f}" for value in row] for row in z], "texttemplate": "%{text}",
        "textfont": {"color": INK, "size": 12},
    }  # fmt: skip
    scale = {"tickvals": [-1, 0, 1], "ticktext": ["0.5", "1", "2"], "thickness": 12, "outlinewidth": 0}
    figure.add_trace(
        go.Heatmap(
            x=x, y=y, z=_doublings(z), zmin=-1, zmax=1, colorscale=SCALE, customdata=hover, showscale=not written,
            colorbar=scale, hovertemplate="%{x}, %{y}: %{customdata}<extra></extra>", **(numbers if written else {}),
        )
    )  # fmt: skip
    _break_even(figure, x, y, z, {"color": INK, "width": 3})


def _doublings(z: Z) -> Z:
    """log2: half the speed is as far from 1 as twice the speed."""
    return [[math.log2(max(value, 1e-6)) for value in row] for row in z]


def _ends(figure: go.Figure, x: Sequence[str], y: Sequence[str], ends: Sequence[Z]) -> None:
    for z in ends:
        _break_even(figure, x, y, z, {"color": INK, "width": 1.5, "dash": "dot"})


def _break_even(figure: go.Figure, x: Sequence[Any], y: Sequence[Any], z: Z, line: dict[str, Any]) -> None:
    if len(x) > 1 and len(y) > 1 and min(map(min, z)) < 1 < max(map(max, z)):
        contours = {"start": 1, "end": 1, "size": 1, "coloring": "none"}
        figure.add_trace(
            go.Contour(
                x=x,
                y=y,
                z=z,
                contours=contours,
                line=line | {"smoothing": 0},
                showscale=False,
                hoverinfo="skip",
                name="break-even",
            )
        )


def _figure(x: str, y: str) -> go.Figure:
    figure = empty_figure(x, y, 400, margin={"l": 60, "r": 12, "t": 12, "b": 48})
    figure.update_xaxes(showgrid=False)
    figure.update_yaxes(showgrid=False)
    return figure
