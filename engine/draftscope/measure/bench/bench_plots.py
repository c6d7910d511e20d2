"""The plots of a benchmark, from its rows alone. Shape tells temperatures and drafters apart, colour only helps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from statistics import median
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from draftscope.measure.bench.bench_plan import where
from draftscope.trace.figure_style import LINE_PX, OURS, PEER, PLAIN, Plot, dashed, empty_figure, marks

RowJson = Mapping[str, Any]

STAGES = {
    "propose": (OURS, ""),
    "verify": (PLAIN, ""),
    "accept": (PLAIN, "/"),
    "commit": (PLAIN, "x"),
    "host": (PLAIN, "."),
}


def plots(report: RowJson) -> list[Plot]:
    """Those that these rows can fill: sweeps only where there was one."""
    rows = _frame(report["rows"])
    first = rows[rows["place"] == rows["place"].iloc[0]]
    plots = [_headlines(_frame(report["headlines"]), first["place"].iloc[0]), _predicted(rows)]
    plots += [_stages(cell) for _, cell in first.groupby("temperature", sort=False)]
    plots.append(_flat(first))
    if rows["batch"].nunique() > 1:
        plots += [_batches(cell) for _, cell in rows.groupby("temperature", sort=False)]
    if rows["context"].nunique(dropna=False) > 1:
        plots += [_memory(rows), _kept(pd.DataFrame(report["kept"])), _contexts(rows)]
    return plots


def _frame(rows: Sequence[RowJson]) -> pd.DataFrame:
    """The rows with what plots need: `ratio`, the median over plain (NaN where none is known), `place` and `at`."""
    frame = pd.DataFrame(list(rows), dtype=object).astype({"temperature": float, "batch": int})
    frame["ratio"] = [row["ratio_to_plain"]["median"] if row["ratio_to_plain"] else None for row in rows]
    frame["place"] = [(row["batch"], row["context"]) for row in rows]
    frame["at"] = [where(row["temperature"], row["batch"], row["context"]) for row in rows]
    return frame.astype({"ratio": float})


def _headlines(headlines: pd.DataFrame, place: tuple[int, int | None]) -> Plot:
    """T = 1 beside T = 0, systems from top to bottom as they were run."""
    shown = headlines[headlines["place"] == place]
    names = list(shown["name"].unique())
    figure = _figure("tokens/s divided by plain's", "", len(names) * LINE_PX + 90)
    for number, (temperature, every) in enumerate(shown.groupby("temperature", sort=False)):
        measured = every[every["ratio"].notna()]
        ends = pd.DataFrame(list(measured["ratio_to_plain"]), columns=["median", "low", "high"])
        figure.add_trace(
            go.Scatter(
                x=list(ends["median"]), y=[_wrapped(name) for name in measured["name"]], mode="markers",
                name=f"T = {temperature:g}", marker=marks(number, [_colour(name) for name in measured["drafter"]]),
                error_x={
                    "array": list(ends["high"] - ends["median"]),
                    "arrayminus": list(ends["median"] - ends["low"]),
                    "color": PLAIN, "thickness": 1.5, "width": 3, "symmetric": False,
                },
            )
        )  # fmt: skip
    figure.update_yaxes(categoryorder="array", categoryarray=[_wrapped(name) for name in reversed(names)])
    figure.update_xaxes(rangemode="tozero")
    figure.add_vline(x=1, line={"color": PLAIN, "width": 1, "dash": "dot"})
    note = f"Measured: median over kinds of text, 95% bootstrap interval. {_loops(shown)}"
    return Plot("Headline", note, figure)


def _loops(headlines: pd.DataFrame) -> str:
    """How many of plain's runs are left out as loops, and where that leaves nothing."""
    plain = headlines[headlines["drafter"] == "plain"]
    counts = ", ".join(f"{line.looping} of {line.runs} at T = {line.temperature:g}" for line in plain.itertuples())
    known = headlines.groupby("temperature", sort=False)["ratio"].count()
    none = [f"T = {temperature:g}" for temperature, count in known.items() if not count]
    lost = f" At {' and '.join(none)} every continuation loops: no number." if none else ""
    return f"Skipped because they loop, of plain's runs: {counts}.{lost}"


def _predicted(rows: pd.DataFrame) -> Plot:
    """A point for each row that has both; on the diagonal they agree."""
    known = rows[rows["predicted_ratio"].notna() & (rows["drafter"] != "plain")]
    figure = _figure("predicted: tau / (gamma c + v + o), and the prefill", "measured", 400)
    for number, (drafter, points) in enumerate(known.groupby("drafter", sort=False)):
        labels = points[["name", "kind", "at"]].to_numpy()
        texts = [f"{escape(name)}<br>{escape(kind)}, {at}" for name, kind, at in labels]
        figure.add_trace(
            go.Scatter(
                x=list(points["predicted_ratio"]), y=list(points["ratio"]),
                mode="markers", name=escape(str(drafter)), marker=marks(number, OURS),
                text=texts,
                hovertemplate="%{text}<br>predicted %{x:.2f}, measured %{y:.2f}<extra></extra>",
            )
        )  # fmt: skip
    end = max([*known["predicted_ratio"], *known["ratio"]], default=1)
    figure.add_shape(type="line", x0=0, y0=0, x1=end, y1=end, line={"color": PLAIN, "width": 1, "dash": "dot"})
    figure.update_xaxes(range=[0, 1.05 * end])
    figure.update_yaxes(range=[0, 1.05 * end])
    return Plot(
        "Predicted beside measured",
        "Both over whole runs, prefill included. Predicted from medians of single parts of the same runs.",
        figure,
    )


def _stages(rows: pd.DataFrame) -> Plot:
    """Bars of one cell, medians over kinds."""
    rows = rows[rows["stage_ms"].astype(bool)]
    stages = pd.DataFrame(list(rows["stage_ms"])).groupby(list(rows["name"]), sort=False).median()
    figure = _figure("milliseconds a round", "", len(stages) * LINE_PX + 90)
    for stage, (colour, pattern) in STAGES.items():
        figure.add_trace(
            go.Bar(
                x=list(stages[stage]), y=[_wrapped(str(name)) for name in stages.index], orientation="h", name=stage,
                marker={"color": colour, "pattern": {"shape": pattern, "fgcolor": colour}, "line": {"width": 0}},
            )
        )  # fmt: skip
    figure.update_layout(barmode="stack", bargap=0.35, legend_traceorder="normal")
    figure.update_yaxes(autorange="reversed")
    return Plot(f"Where a round goes, {rows['at'].iloc[0]}", "Measured: medians of each stage and width.", figure)


def _flat(rows: pd.DataFrame) -> Plot:
    """Time a token against how much was written, each drafter at its fastest setting."""
    rows = rows[rows["ms_per_token"].astype(bool)]
    figure = _figure("tokens written", "milliseconds a token", 340)
    for number, (name, fastest) in enumerate(_fastest(rows)):
        times = pd.DataFrame(list(fastest["ms_per_token"])).median()
        middle = [(part + 0.5) * fastest["tokens"].iloc[0] / len(times) for part in range(len(times))]
        figure.add_trace(_line(middle, times, name, number, _colour(fastest["drafter"].iloc[0])))
    return Plot(
        "Time a token against generated length",
        f"Measured by eighths of the text, prefill left out; medians over kinds, each drafter at its fastest setting. "
        f"Temperatures: {', '.join(f'{t:g}' for t in rows['temperature'].unique())}.",
        figure,
    )


def _batches(rows: pd.DataFrame) -> Plot:
    """Speedup against batch, each drafter at its fastest setting; who takes one sequence only is left out."""
    rows = rows[rows.groupby("name")["batch"].transform("max") > 1]
    figure = _figure("sequences decoded together", "tokens/s divided by plain's", 340)
    _add_medians(figure, rows, "batch", "ratio")
    figure.update_xaxes(type="log", tickvals=list(rows["batch"].unique()))
    title = f"Speedup against batch, T = {rows['temperature'].iloc[0]:g}"
    return Plot(title, "Measured: median over kinds, loops included; plain of the same batch is 1.", figure)


def _memory(rows: pd.DataFrame) -> Plot:
    figure = _figure("tokens of the prompt", "bytes of keys and values", 340)
    rows = rows[rows["cache_bytes"].notna() & (rows["batch"] == rows["batch"].iloc[0])]
    for number, (name, fastest) in enumerate(_fastest(rows)):
        sizes = fastest.groupby("context", sort=False)["cache_bytes"].last()
        figure.add_trace(_line(sizes.index, sizes, name, number, _colour(fastest["drafter"].iloc[0])))
    note = "Computed from the models' shapes: keys and values at the end of the text, in target and draft."
    return Plot("Memory against context", note, figure)


def _kept(kept: pd.DataFrame) -> Plot:
    """A line for each model: keys and values grow with the text, a recurrent state does not."""
    figure = _figure("tokens of the text", "bytes", 340)
    for number, (model, sizes) in enumerate(kept.groupby("model", sort=False)):
        role = sizes["role"].iloc[0]
        colour = PLAIN if role == "target" else OURS
        figure.add_trace(_line(sizes["tokens"], sizes["bytes"], f"{role} {model}", number, colour))
    constant = ", ".join(kept[kept["constant"]]["model"].unique())
    said = f" The same for any text: {constant}." if constant else ""
    note = f"Computed from the models' shapes, for one text: keys and values, or a recurrent model's state.{said}"
    return Plot("State of each model against context", note, figure)


def _contexts(rows: pd.DataFrame) -> Plot:
    figure = _figure("tokens of the prompt", "milliseconds a token", 340)
    rows = rows[rows["ms_per_token"].astype(bool) & (rows["batch"] == rows["batch"].iloc[0])]
    _add_medians(figure, rows.assign(ms=[median(times) for times in rows["ms_per_token"]]), "context", "ms")
    return Plot(
        "Time a token against context", "Measured, prefill left out; medians over kinds and temperatures.", figure
    )


def _add_medians(figure: go.Figure, rows: pd.DataFrame, x: str, y: str) -> None:
    """A line for each drafter: the median of column `y` at each value of column `x`."""
    for number, (name, fastest) in enumerate(_fastest(rows)):
        medians = fastest.groupby(x, sort=False)[y].median()
        figure.add_trace(_line(medians.index, medians, name, number, _colour(fastest["drafter"].iloc[0])))


def _fastest(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Of each drafter, or peer, the setting with the highest median ratio: its name and rows."""
    best = [
        str(settings.groupby("name", sort=False)["ratio"].median().idxmax())
        for _, settings in rows.groupby(["system", "drafter"], sort=False)
    ]
    return [(name, rows[rows["name"] == name]) for name in best]


def _colour(drafter: str) -> str:
    return PEER if not drafter else PLAIN if drafter == "plain" else OURS


def _line(x: Iterable[float], y: Iterable[float], name: str, number: int, colour: str) -> go.Scatter:
    line, marker = dashed(number, colour), marks(number, colour)
    return go.Scatter(x=list(x), y=list(y), name=escape(name), mode="lines+markers", line=line, marker=marker)


def _wrapped(name: str) -> str:
    """A peer's long name on two lines, so that a narrow screen keeps room for the plot."""
    return escape(name).replace("-", "-<br>", 1) if len(name) > 20 else escape(name)


def _figure(x: str, y: str, height: int) -> go.Figure:
    figure = empty_figure(x, y, height, showlegend=True, margin={"l": 12, "r": 12, "t": 10, "b": 40})
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True, rangemode="tozero")
    return figure
