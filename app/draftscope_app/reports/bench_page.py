"""A benchmark's report as one HTML file that opens anywhere: nothing is fetched, plotly lies inside, once.

`page(report)` is pure: what `bench.json` holds in, HTML out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from draftscope.base.machine import machine_words
from draftscope.measure.bench.bench_plan import where
from draftscope.measure.bench.bench_plots import plots
from draftscope_app.reports.render import SHARED, Table, render, render_document

RowJson = Mapping[str, Any]
Cell = tuple[float, int, int | None]  # temperature, batch, context


def page(report: RowJson) -> str:
    """The whole file. `report` is what `bench.json` holds."""
    rows: list[RowJson] = report["rows"]
    cells = list(dict.fromkeys(map(_cell, rows)))
    tables = {cell: _ratios(cell, [row for row in rows if _cell(row) == cell]) for cell in cells}
    return render_document(
        SHARED / "bench.html",
        "Draftscope benchmark",
        machine=machine_words(report["machine"]),
        lead=_lead(report["headlines"]),
        method=report["method"],
        plots=plots(report),
        tables=[table for cell, table in tables.items() if cell[1:] == cells[0][1:]],
        folded=[table for cell, table in tables.items() if cell[1:] != cells[0][1:]],
        lossy=_lossy([row for row in rows if row["lossy"]]),
        peers=report["peers"],
        notes=report["notes"],
    )


def _lead(headlines: Sequence[RowJson]) -> str:
    """A true sentence for each temperature of the first batch and context: the fastest drafter, or that none counts."""
    size = _cell(headlines[0])[1:]
    drafters = [line for line in headlines if _cell(line)[1:] == size and line["drafter"] not in ("", "plain")]
    said = [_best([line for line in drafters if _cell(line) == cell]) for cell in dict.fromkeys(map(_cell, drafters))]
    return " ".join(said) or "No drafter was measured."


def _best(headlines: Sequence[RowJson]) -> str:
    place = where(*_cell(headlines[0]))
    compared = [line for line in headlines if line["ratio_to_plain"]]
    if not compared:
        return f"{place}: every continuation loops, so there is no headline."
    best = max(compared, key=lambda line: line["ratio_to_plain"]["median"])
    ratio = best["ratio_to_plain"]
    interval = f"{ratio['low']:.2f} to {ratio['high']:.2f}"
    return f"{place}: {best['name']} wrote {ratio['median']:.2f} times plain's tokens a second ({interval})."


def _cell(row: RowJson) -> Cell:
    return row["temperature"], row["batch"], row["context"]


def _ratios(cell: Cell, rows: Sequence[RowJson]) -> Table:
    """Ratio to plain by kind of text, with its interval, speed, and whose tokens they are."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    lines = []
    for name in dict.fromkeys(row["name"] for row in rows):
        by_kind = {row["kind"]: row for row in rows if row["name"] == name}
        words = ", ".join(dict.fromkeys(row["tokens_vs_plain"] for row in by_kind.values()))
        lines.append((name, [*(_ratio(by_kind[kind]) if kind in by_kind else "-" for kind in kinds), words]))
    caption = (
        f"Tokens/s divided by plain's, {where(*cell)}: median, looping runs included, 95% interval in the tooltip "
        "(mean acceptance length); ~ where every run loops"
    )
    return Table(where(*cell), caption, ("system", *kinds, "tokens vs plain"), lines)


def _lossy(rows: Sequence[RowJson]) -> Table | None:
    """The lossy rules' speed, and beside it how far what they write lies from the target's distribution."""
    lines = []
    for name, cell in dict.fromkeys((row["name"], _cell(row)) for row in rows):
        same = [row for row in rows if (row["name"], _cell(row)) == (name, cell)]
        ratio = f"{median(row['ratio_to_plain']['median'] for row in same):.2f}"
        lines.append((name, (where(*cell), ratio, *_apart(same[0]["distance"]))))
    caption = (
        "Lossy rules do not write the target's distribution. Distance of the joint distribution of the first tokens "
        "from the target's own, sampled (in brackets the distance due to sampling alone). At T = 0 every rule writes "
        "the target's tokens"
    )
    head = ("system", "at", "tokens/s over plain's", "total variation", "KL, nats")
    return Table("Lossy rules", caption, head, lines) if lines else None


def _apart(distance: RowJson | None) -> tuple[str, str]:
    """Total variation and KL, where they were sampled."""
    if distance is None:
        return "-", "-"
    divergence = "infinite" if distance["kl"] is None else f"{distance['kl']:.3f}"
    return (
        f"{distance['total_variation']:.3f} [{distance['sampling_total_variation']:.3f}]",
        f"{divergence} [{distance['sampling_kl']:.3f}]",
    )


def _ratio(row: RowJson) -> str:
    """The median; interval, speed and looping runs in its tooltip."""
    ratio, length = row["ratio_to_plain"], row["mean_acceptance_length"]
    more = "" if length is None else f" ({length:.2f})"
    loops = " ~" if row["looping"] == row["runs"] else ""
    return render(
        SHARED / "ratio.html",
        shown=f"{ratio['median']:.2f}{more}{loops}",
        low=f"{ratio['low']:.2f}",
        high=f"{ratio['high']:.2f}",
        speed=f"{row['tokens_per_s']:.0f}",
        looping=row["looping"],
        runs=row["runs"],
    )
