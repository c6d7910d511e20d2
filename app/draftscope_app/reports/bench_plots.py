"""The plots of a benchmark, from its rows alone. Shape tells temperatures and drafters apart, colour only helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from statistics import median
from typing import Any

import plotly.graph_objects as go

from draftscope.measure.bench.plan import where
from draftscope_app.reports.figures import LINE_PX, OURS, PEER, PLAIN, dashed, empty_figure, marks

RowJson = Mapping[str, Any]

STAGES = {
    "propose": (OURS, ""),
    "verify": (PLAIN, ""),
    "accept": (PLAIN, "/"),
    "commit": (PLAIN, "x"),
    "host": (PLAIN, "."),
}


@dataclass(frozen=True)
class Plot:
    """A figure, and in a sentence what it shows and where its numbers come from."""

    title: str
    note: str
    figure: go.Figure


def plots(report: RowJson) -> list[Plot]:
    """Those that these rows can fill: sweeps only where there was one."""
    rows: list[RowJson] = report["rows"]
    first = [row for row in rows if row["batch"] == rows[0]["batch"] and row["context"] == rows[0]["context"]]
    found = [_headlines(report["headlines"], rows[0]), _predicted(rows)]
    found += [_stages([row for row in first if row["temperature"] == t]) for t in _values(first, "temperature")]
    found.append(_flat(first))
    if len(_values(rows, "batch")) > 1:
        found += [_batches([row for row in rows if row["temperature"] == t]) for t in _values(rows, "temperature")]
    if len(_values(rows, "context")) > 1:
        found += [_memory(rows), _kept(report["kept"]), _contexts(rows)]
    return found


def _headlines(headlines: Sequence[RowJson], first: RowJson) -> Plot:
    """T = 1 beside T = 0, systems from top to bottom as they were run."""
    shown = [line for line in headlines if (line["batch"], line["context"]) == (first["batch"], first["context"])]
    names = list(dict.fromkeys(line["name"] for line in shown))
    figure = _figure("tokens/s divided by plain's", "", len(names) * LINE_PX + 90)
    for number, temperature in enumerate(_values(shown, "temperature")):
        own = [line for line in shown if line["temperature"] == temperature and line["ratio_to_plain"]]
        ratios = [line["ratio_to_plain"] for line in own]
        figure.add_trace(
            go.Scatter(
                x=[ratio["median"] for ratio in ratios], y=[_wrapped(line["name"]) for line in own], mode="markers",
                name=f"T = {temperature:g}", marker=marks(number, [_colour(line) for line in own]),
                error_x={
                    "array": [ratio["high"] - ratio["median"] for ratio in ratios],
                    "arrayminus": [ratio["median"] - ratio["low"] for ratio in ratios],
                    "color": PLAIN, "thickness": 1.5, "width": 3, "symmetric": False,
                },
            )
        )  # fmt: skip
    figure.update_yaxes(categoryorder="array", categoryarray=[_wrapped(name) for name in reversed(names)])
    figure.update_xaxes(rangemode="tozero")
    figure.add_vline(x=1, line={"color": PLAIN, "width": 1, "dash": "dot"})
    note = f"Measured: median over kinds of text, 95% bootstrap interval. {_loops(shown)}"
    return Plot("Headline", note, figure)


def _loops(headlines: Sequence[RowJson]) -> str:
    """How many of plain's runs are left out as loops, and where that leaves nothing."""
    plain = [line for line in headlines if line["drafter"] == "plain"]
    counts = ", ".join(f"{line['looping']} of {line['runs']} at T = {line['temperature']:g}" for line in plain)
    none = [f"T = {t:g}" for t in _values(headlines, "temperature") if not _any_headline(headlines, t)]
    lost = f" At {' and '.join(none)} every continuation loops: no number." if none else ""
    return f"Skipped because they loop, of plain's runs: {counts}.{lost}"


def _any_headline(headlines: Sequence[RowJson], temperature: float) -> bool:
    return any(line["ratio_to_plain"] for line in headlines if line["temperature"] == temperature)


def _predicted(rows: Sequence[RowJson]) -> Plot:
    """A point for each row that has both; on the diagonal they agree."""
    known = [row for row in rows if row["predicted_ratio"] is not None and row["drafter"] != "plain"]
    figure = _figure("predicted: tau / (gamma c + v + o), and the prefill", "measured", 400)
    for number, drafter in enumerate(_values(known, "drafter")):
        own = [row for row in known if row["drafter"] == drafter]
        figure.add_trace(
            go.Scatter(
                x=[row["predicted_ratio"] for row in own], y=[row["ratio_to_plain"]["median"] for row in own],
                mode="markers", name=escape(drafter), marker=marks(number, OURS),
                text=[f"{escape(row['name'])}<br>{escape(row['kind'])}, {where(*_cell(row))}" for row in own],
                hovertemplate="%{text}<br>predicted %{x:.2f}, measured %{y:.2f}<extra></extra>",
            )
        )  # fmt: skip
    end = max(
        (value for row in known for value in (row["predicted_ratio"], row["ratio_to_plain"]["median"])), default=1
    )
    figure.add_shape(type="line", x0=0, y0=0, x1=end, y1=end, line={"color": PLAIN, "width": 1, "dash": "dot"})
    figure.update_xaxes(range=[0, 1.05 * end])
    figure.update_yaxes(range=[0, 1.05 * end])
    return Plot(
        "Predicted beside measured",
        "Both over whole runs, prefill included. Predicted from medians of single parts of the same runs.",
        figure,
    )


def _stages(rows: Sequence[RowJson]) -> Plot:
    """Bars of one cell, medians over kinds."""
    rows = [row for row in rows if row["stage_ms"]]
    names = _values(rows, "name")
    figure = _figure("milliseconds a round", "", len(names) * LINE_PX + 90)
    for stage, (colour, pattern) in STAGES.items():
        times = [_middle(rows, name, partial(_stage_ms, stage)) for name in names]
        figure.add_trace(
            go.Bar(
                x=times, y=[_wrapped(name) for name in names], orientation="h", name=stage,
                marker={"color": colour, "pattern": {"shape": pattern, "fgcolor": colour}, "line": {"width": 0}},
            )
        )  # fmt: skip
    figure.update_layout(barmode="stack", bargap=0.35, legend_traceorder="normal")
    figure.update_yaxes(autorange="reversed")
    return Plot(f"Where a round goes, {where(*_cell(rows[0]))}", "Measured: medians of each stage and width.", figure)


def _flat(rows: Sequence[RowJson]) -> Plot:
    """Time a token against how much was written, each drafter at its fastest setting."""
    rows = [row for row in rows if row["ms_per_token"]]
    figure = _figure("tokens written", "milliseconds a token", 340)
    for number, name in enumerate(_fastest(rows)):
        own = [row for row in rows if row["name"] == name]
        times = [median(values) for values in zip(*(row["ms_per_token"] for row in own), strict=True)]
        middle = [(part + 0.5) * own[0]["tokens"] / len(times) for part in range(len(times))]
        figure.add_trace(_line(middle, times, name, number, _colour(own[0])))
    return Plot(
        "Time a token against generated length",
        f"Measured by eighths of the text, prefill left out; medians over kinds, each drafter at its fastest setting. "
        f"Temperatures: {', '.join(f'{t:g}' for t in _values(rows, 'temperature'))}.",
        figure,
    )


def _batches(rows: Sequence[RowJson]) -> Plot:
    """Speedup against batch, each drafter at its fastest setting; who takes one sequence only is left out."""
    rows = [row for row in rows if any(other["batch"] > 1 for other in rows if other["name"] == row["name"])]
    figure = _figure("sequences decoded together", "tokens/s divided by plain's", 340)
    for number, name in enumerate(_fastest(rows)):
        own = [row for row in rows if row["name"] == name]
        batches = _values(own, "batch")
        ratios = [median(row["ratio_to_plain"]["median"] for row in own if row["batch"] == b) for b in batches]
        figure.add_trace(_line(batches, ratios, name, number, _colour(own[0])))
    figure.update_xaxes(type="log", tickvals=_values(rows, "batch"))
    title = f"Speedup against batch, T = {rows[0]['temperature']:g}"
    return Plot(title, "Measured: median over kinds, loops included; plain of the same batch is 1.", figure)


def _memory(rows: Sequence[RowJson]) -> Plot:
    figure = _figure("tokens of the prompt", "bytes of keys and values", 340)
    rows = [row for row in rows if row["cache_bytes"] is not None and row["batch"] == rows[0]["batch"]]
    for number, name in enumerate(_fastest(rows)):
        own = [row for row in rows if row["name"] == name]
        sizes = {row["context"]: row["cache_bytes"] for row in own}
        figure.add_trace(_line(list(sizes), list(sizes.values()), name, number, _colour(own[0])))
    note = "Computed from the models' shapes: keys and values at the end of the text, in target and draft."
    return Plot("Memory against context", note, figure)


def _kept(kept: Sequence[RowJson]) -> Plot:
    """A line for each model: keys and values grow with the text, a recurrent state does not."""
    figure = _figure("tokens of the text", "bytes", 340)
    for number, model in enumerate(_values(kept, "model")):
        own = [line for line in kept if line["model"] == model]
        colour = PLAIN if own[0]["role"] == "target" else OURS
        tokens, sizes = [line["tokens"] for line in own], [line["bytes"] for line in own]
        figure.add_trace(_line(tokens, sizes, f"{own[0]['role']} {model}", number, colour))
    constant = [model for model in _values(kept, "model") if any(k["constant"] for k in kept if k["model"] == model)]
    said = f" The same for any text: {', '.join(constant)}." if constant else ""
    note = f"Computed from the models' shapes, for one text: keys and values, or a recurrent model's state.{said}"
    return Plot("State of each model against context", note, figure)


def _contexts(rows: Sequence[RowJson]) -> Plot:
    figure = _figure("tokens of the prompt", "milliseconds a token", 340)
    rows = [row for row in rows if row["ms_per_token"] and row["batch"] == rows[0]["batch"]]
    for number, name in enumerate(_fastest(rows)):
        own = [row for row in rows if row["name"] == name]
        contexts = _values(own, "context")
        times = [median(median(row["ms_per_token"]) for row in own if row["context"] == n) for n in contexts]
        figure.add_trace(_line(contexts, times, name, number, _colour(own[0])))
    return Plot(
        "Time a token against context", "Measured, prefill left out; medians over kinds and temperatures.", figure
    )


def _fastest(rows: Sequence[RowJson]) -> list[str]:
    """Of each drafter, or peer, the setting with the highest median ratio."""
    best: dict[str, str] = {}
    for who in dict.fromkeys((row["system"], row["drafter"]) for row in rows):
        own = [row for row in rows if (row["system"], row["drafter"]) == who]
        names = _values(own, "name")
        best["/".join(who)] = max(
            names, key=lambda name: _middle(own, name, lambda row: row["ratio_to_plain"]["median"])
        )
    return list(best.values())


def _stage_ms(stage: str, row: RowJson) -> float:
    return float(row["stage_ms"][stage])


def _middle(rows: Sequence[RowJson], name: str, value: Callable[[RowJson], float]) -> float:
    return median(value(row) for row in rows if row["name"] == name)


def _values(rows: Sequence[RowJson], field: str) -> list[Any]:
    return list(dict.fromkeys(row[field] for row in rows))


def _cell(row: RowJson) -> tuple[float, int, int | None]:
    return row["temperature"], row["batch"], row["context"]


def _colour(row: RowJson) -> str:
    return PEER if not row["drafter"] else PLAIN if row["drafter"] == "plain" else OURS


def _line(x: Sequence[float], y: Sequence[float], name: str, number: int, colour: str) -> go.Scatter:
    line, marker = dashed(number, colour), marks(number, colour)
    return go.Scatter(x=x, y=y, name=escape(name), mode="lines+markers", line=line, marker=marker)


def _wrapped(name: str) -> str:
    """A peer's long name on two lines, so that a narrow screen keeps room for the plot."""
    return escape(name).replace("-", "-<br>", 1) if len(name) > 20 else escape(name)


def _figure(x: str, y: str, height: int) -> go.Figure:
    figure = empty_figure(x, y, height, showlegend=True, margin={"l": 12, "r": 12, "t": 10, "b": 40})
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True, rangemode="tozero")
    return figure
