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
from draftscope.measure.bench.statistics import Interval
from draftscope.trace.figure_style import empty_figure
from draftscope_app.engine.plural import count

Report = Mapping[str, Any]  # what `draftscope advise --json` prints

READERS, ACCEPTANCE, LENGTH = "gamma by concurrent requests", "acceptance by draft cost", "answer length by context"
MAPS = (READERS, ACCEPTANCE, LENGTH)
THIS_MACHINE = "this machine, measured"
MACHINES = (THIS_MACHINE, *(f"{card.name}, modelled" for card in CARDS))
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


def drawn(report: Report, which: str, what_if: WhatIf) -> tuple[go.Figure | None, str]:
    """The map and a sentence about it; no map where the report has no data for it."""
    surface = report.get("surface")
    if not surface:
        missing = "what rounds cost on this machine is not measured" if report["costs_s"] else "no drafter makes chains"
        return None, f"There is no map: {missing}."
    if (why := refusal(surface, what_if)) is not None:
        return None, why
    figure, note = _map(report, surface, which, what_if)
    has_circles = figure is not None and any(trace.name == CIRCLES for trace in figure.data)
    circles = " A circle: run against plain decoding." if has_circles else ""
    return figure, _other(report, surface) + note + circles


def _other(report: Report, surface: Report) -> str:
    """What is said if the map is not of the drafter that the advice is about."""
    chosen: str = report["chosen"]["candidate"]["drafter"]
    if chosen == surface["drafter"]:
        return ""
    return f"The advice is about {chosen}, which has no gamma; this map is of {surface['drafter']}, the best that has. "


def _map(report: Report, surface: Report, which: str, what_if: WhatIf) -> tuple[go.Figure | None, str]:
    if which == ACCEPTANCE:
        return _acceptance(report, surface, what_if), _note_on_acceptance(report, surface, what_if)
    if which == LENGTH:
        if not surface["by_context"]:
            return None, "There is no map by context: costs are known for one context only."
        return _lengths(report, surface, what_if), _note_on_lengths(surface, what_if)
    return _by_requests(report, surface, what_if), _note_on_requests(surface, what_if)


def _note_on_requests(report: Report, what_if: WhatIf) -> str:
    return f"{report['drafter']}, in a full batch: {_costs(what_if)}. {_lines(what_if)}{_changes(what_if)}"


def _note_on_acceptance(report: Report, surface: Report, what_if: WhatIf) -> str:
    drafter, requests = surface["drafter"], surface["readers"][_place_of(report, surface)]
    return (
        f"{drafter} at {count(requests, 'concurrent request')}, each place with its best gamma: {_costs(what_if)}. The "
        f"line is break-even; the dot is {drafter} itself, with the 95% interval of its acceptance.{_changes(what_if)}"
    )


def _note_on_lengths(report: Report, what_if: WhatIf) -> str:
    return (
        f"{report['drafter']}, gamma {report['by_context']['gamma']}, one request. Reading the prompt is included and "
        f"taken to grow with the context: {_costs(what_if)}. {_lines(what_if)}{_changes(what_if)}"
    )


def _costs(what_if: WhatIf) -> str:
    """Where the costs come from."""
    if what_if.card is None:
        return "modelled from measured acceptance and costs"
    card = f"{what_if.card.name} ({what_if.card.gb_s:,} GB/s, {what_if.card.tflop_s:,} TFLOP/s)"
    return f"a forecast for {card} with {ENGINE.name}, not run: bytes, operations, caches, launches of these sizes"


def _lines(what_if: WhatIf) -> str:
    if what_if.alpha is not None:
        return "The solid line is break-even."
    return "The solid line is break-even; the dotted ones are at the ends of the 95% interval of the tokens a round."


def _changes(what_if: WhatIf) -> str:
    changes = [
        *([f"acceptance {what_if.alpha:.2f} at every position"] if what_if.alpha is not None else []),
        *([f"a draft step at {what_if.draft_cost:.2f} of its cost"] if what_if.draft_cost != 1 else []),
    ]
    return f" What if: {', '.join(changes)}." if changes else ""


def _by_requests(report: Report, surface: Report, what_if: WhatIf) -> go.Figure:
    table = ratios(surface, what_if)
    figure = _figure("concurrent requests", "gamma")
    x, y = [str(size) for size in surface["readers"]], [str(gamma) for gamma in surface["gammas"]]
    hover = [[f"{middle:.2f} [{low:.2f}, {high:.2f}]" for middle, low, high in row] for row in table]
    _field(figure, x, y, [[cell[0] for cell in row] for row in table], hover)
    if what_if.alpha is None:
        _ends(figure, x, y, [[[cell[end] for cell in row] for row in table] for end in (1, 2)])
    if what_if == AS_MEASURED:
        _measured(figure, report, surface, x, y)
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category")
    return figure


def _measured(figure: go.Figure, report: Report, surface: Report, x: Sequence[str], y: Sequence[str]) -> None:
    """Settings that were run, at the concurrency that was asked for."""
    requests = str(report["question"]["concurrency"])
    ran = [run for run in _ran(report, surface) if str(run["candidate"]["gamma"]) in y]
    if ran and requests in x:
        _circles(figure, [requests] * len(ran), [str(run["candidate"]["gamma"]) for run in ran], ran)


def _ran(report: Report, surface: Report) -> list[Report]:
    """The settings of the map's drafter that were run against plain decoding."""
    return [run for run in report["measured"] if run["candidate"]["drafter"] == surface["drafter"]]


def _circles(figure: go.Figure, x: Sequence[str], y: Sequence[str], ran: Sequence[Report]) -> None:
    figure.add_trace(
        go.Scatter(
            x=x, y=y, mode="markers", name=CIRCLES, customdata=[str(Interval(**run["ratio"])) for run in ran],
            marker={"symbol": "circle-open", "size": 26, "color": INK, "line": {"width": 2}},
            hovertemplate="measured: %{customdata}<extra></extra>",
        )
    )  # fmt: skip


def _acceptance(report: Report, surface: Report, what_if: WhatIf) -> go.Figure:
    """The best gamma at each acceptance and draft cost, at the concurrency nearest to the one asked for."""
    place = _place_of(report, surface)
    drafter_c = _c_and_alpha(surface, what_if, place)[0]
    most = max(0.6, 1.25 * drafter_c)  # the drafter itself is on the map
    alphas, costs = [round(0.05 * k, 2) for k in range(21)], [most * k / 24 for k in range(1, 25)]
    verify_costs = [row[place] for row in _verify_costs(surface, what_if)]

    def best(alpha: float, c: float) -> float:
        tau = [interval[0] for interval in taus(surface, WhatIf(alpha=alpha))]
        return float(max(t / (gamma * c + v) for t, gamma, v in zip(tau, surface["gammas"], verify_costs, strict=True)))

    figure = _figure("c: a draft step, in rounds of plain decoding", "acceptance of a drafted token")
    z = [[best(alpha, c) for c in costs] for alpha in alphas]
    _field(figure, costs, alphas, z, [[f"{value:.2f}" for value in row] for row in z], written=False)
    _place(figure, report, surface, what_if, place)
    return figure


def _place_of(report: Report, surface: Report) -> int:
    """The column of the map whose number of requests is nearest to the question's."""
    requests, wanted = surface["readers"], report["question"]["concurrency"]
    return min(range(len(requests)), key=lambda index: abs(requests[index] - wanted))


def _c_and_alpha(report: Report, what_if: WhatIf, place: int) -> tuple[float, tuple[float, float, float]]:
    """The drafter's c, and the acceptance that its tokens a round stand for: median, low, high."""
    from draftscope.base.costs import alpha_of

    gamma = report["gammas"][0]
    whole = round_costs(report, what_if)[0][place]
    verify = _verify_costs(report, what_if)[0][place]
    middle, low, high = (min(1.0, alpha_of(tau, gamma)) for tau in taus(report, what_if)[0])
    return (whole - verify) / gamma, (middle, low, high)


def _place(figure: go.Figure, report: Report, surface: Report, what_if: WhatIf, place: int) -> None:
    """Where the drafter is, and what it gave if it was run as it is there."""
    c, (alpha, least, most) = _c_and_alpha(surface, what_if, place)
    ran = _ran(report, surface) if what_if == AS_MEASURED else []
    measured = "".join(f"<br>measured, gamma {run['candidate']['gamma']}: {Interval(**run['ratio'])}" for run in ran)
    figure.add_trace(
        go.Scatter(
            x=[c], y=[alpha], mode="markers", name=surface["drafter"],
            error_y={"type": "data", "array": [most - alpha], "arrayminus": [alpha - least], "color": INK},
            marker={"symbol": "circle", "size": 11, "color": INK, "line": {"width": 1.5, "color": GROUND}},
            hovertemplate=f"{surface['drafter']}: acceptance %{{y:.2f}}, c %{{x:.3f}}{measured}<extra></extra>",
        )
    )  # fmt: skip


def _lengths(report: Report, surface: Report, what_if: WhatIf) -> go.Figure:
    """What was run with this gamma and one request is marked at its own prompt and length."""
    by_context = surface["by_context"]
    ran = [run for run in _ran(report, surface) if run["candidate"]["gamma"] == by_context["gamma"]]
    shown = ran if what_if == AS_MEASURED and report["question"]["concurrency"] == 1 else []
    lengths = sorted({*LENGTHS, *(run["tokens"] for run in shown)})

    def at(tau: float) -> Z:
        places = range(len(by_context["contexts"]))
        return [[answer_ratio(surface, tau, place, tokens, what_if) for place in places] for tokens in lengths]

    middle, *ends = (at(tau) for tau in taus(surface, what_if)[surface["gammas"].index(by_context["gamma"])])
    figure = _figure("tokens of context", "tokens of an answer")
    x, y = [str(context) for context in by_context["contexts"]], [str(tokens) for tokens in lengths]
    rows = zip(middle, *ends, strict=True)
    hover = [[f"{m:.2f} [{low:.2f}, {high:.2f}]" for m, low, high in zip(*row, strict=True)] for row in rows]
    _field(figure, x, y, middle, hover)
    if what_if.alpha is None:
        _ends(figure, x, y, ends)
    if shown:
        _circles(figure, [str(by_context["prompt"])] * len(shown), [str(run["tokens"]) for run in shown], shown)
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category")
    return figure


def _verify_costs(report: Report, what_if: WhatIf) -> Z:
    """What rounds would cost if drafting were free."""
    free = [[0.0] * len(report["readers"]) for _ in report["gammas"]]
    return round_costs({**report, "drafting": free}, WhatIf(card=what_if.card, draft_cost=0.0))


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
