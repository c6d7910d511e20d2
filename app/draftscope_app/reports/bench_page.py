"""A benchmark's report as one HTML file that opens anywhere: nothing is fetched, plotly lies inside, once.

`page(report)` is pure: what `bench.json` holds in, HTML out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from statistics import median
from typing import Any

from plotly.offline import get_plotlyjs

from draftscope.base.assets import assets
from draftscope.base.machine import machine_words
from draftscope.measure.bench.plan import where
from draftscope.trace.html import palette
from draftscope_app.reports.bench_plots import Plot, plots

RowJson = Mapping[str, Any]
CONFIG = {"displayModeBar": False, "responsive": True}


def page(report: RowJson) -> str:
    """The whole file. `report` is what `bench.json` holds."""
    rows: list[RowJson] = report["rows"]
    figures = "".join(figure(number, plot) for number, plot in enumerate(plots(report)))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Draftscope benchmark</title>'
        f"<style>{style()}</style><script>{get_plotlyjs()}</script></head><body><main>"
        f'<h1>Draftscope benchmark</h1><p class="muted">{escape(machine_words(report["machine"]))}</p>'
        f'<p class="lead">{escape(_lead(report["headlines"]))}</p><p class="muted">{escape(report["method"])}</p>'
        f'<div class="grid">{figures}</div>{_tables(rows)}{_lossy([row for row in rows if row["lossy"]])}'
        f"{listed('Other programs', report['peers'])}{listed('Skipped', report['notes'])}</main></body></html>\n"
    )


def _lead(headlines: Sequence[RowJson]) -> str:
    """A true sentence for each temperature of the first batch and context: the fastest drafter, or that none counts."""
    size = _cell(headlines[0])[1:]
    drafters = [line for line in headlines if _cell(line)[1:] == size and line["drafter"] not in ("", "plain")]
    said = [_best([line for line in drafters if _cell(line) == cell]) for cell in dict.fromkeys(map(_cell, drafters))]
    return " ".join(said) or "No drafter was measured."


def _best(headlines: Sequence[RowJson]) -> str:
    place = where(*_cell(headlines[0]))
    told = [line for line in headlines if line["ratio_to_plain"]]
    if not told:
        return f"{place}: every continuation loops, so there is no headline."
    best = max(told, key=lambda line: line["ratio_to_plain"]["median"])
    ratio = best["ratio_to_plain"]
    interval = f"{ratio['low']:.2f} to {ratio['high']:.2f}"
    return f"{place}: {best['name']} wrote {ratio['median']:.2f} times plain's tokens a second ({interval})."


def _cell(row: RowJson) -> tuple[float, int, int | None]:
    return row["temperature"], row["batch"], row["context"]


def figure(number: int, plot: Plot) -> str:
    drawn = plot.figure.to_html(
        full_html=False, include_plotlyjs=False, config=CONFIG, div_id=f"plot-{number}", default_width="100%"
    )
    return (
        f'<figure role="group" aria-label="{escape(plot.title)}"><h2>{escape(plot.title)}</h2>'
        f"<figcaption>{escape(plot.note)}</figcaption>{drawn}</figure>"
    )


def _tables(rows: Sequence[RowJson]) -> str:
    """A table for each cell; those of a sweep's other batches and contexts are folded."""
    cells = list(dict.fromkeys(map(_cell, rows)))
    drawn = {cell: _table(cell, [row for row in rows if _cell(row) == cell]) for cell in cells}
    first = "".join(table for cell, table in drawn.items() if cell[1:] == cells[0][1:])
    others = "".join(table for cell, table in drawn.items() if cell[1:] != cells[0][1:])
    return first + (f"<details><summary>Other batches and contexts</summary>{others}</details>" if others else "")


def _table(cell: tuple[float, int, int | None], rows: Sequence[RowJson]) -> str:
    """Ratio to plain by kind of text, with its interval, speed, and whose tokens they are."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in ("system", *kinds, "tokens vs plain"))
    body = ""
    for name in dict.fromkeys(row["name"] for row in rows):
        own = {row["kind"]: row for row in rows if row["name"] == name}
        cells = "".join(f"<td>{_ratio(own[kind]) if kind in own else '-'}</td>" for kind in kinds)
        words = ", ".join(dict.fromkeys(row["tokens_vs_plain"] for row in own.values()))
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}<td>{escape(words)}</td></tr>'
    caption = (
        f"Tokens/s divided by plain's, {where(*cell)}: median, 95% interval in the tooltip (mean acceptance length); "
        "~ where every run loops"
    )
    return (
        f'<div class="card" role="region" tabindex="0" aria-label="{escape(where(*cell))}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _lossy(rows: Sequence[RowJson]) -> str:
    """The lossy rules' speed, and beside it how far what they write lies from the target's distribution."""
    if not rows:
        return ""
    head = ("system", "at", "tokens/s over plain's", "total variation", "KL, nats")
    body = ""
    for name, cell in dict.fromkeys((row["name"], _cell(row)) for row in rows):
        own = [row for row in rows if (row["name"], _cell(row)) == (name, cell)]
        ratio = f"{median(row['ratio_to_plain']['median'] for row in own):.2f}"
        cells = "".join(f"<td>{escape(text)}</td>" for text in (where(*cell), ratio, *_apart(own[0]["distance"])))
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    caption = (
        "Lossy rules do not write the target's distribution. Distance of the joint distribution of the first tokens "
        "from the target's own, sampled (in brackets the distance due to sampling alone). At T = 0 every rule writes "
        "the target's tokens"
    )
    titles = "".join(f'<th scope="col">{escape(title)}</th>' for title in head)
    return (
        '<div class="card" role="region" tabindex="0" aria-label="Lossy rules"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>"
    )


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
    ratio, length = row["ratio_to_plain"], row["mean_acceptance_length"]
    more = "" if length is None else f" ({length:.2f})"
    loops = " ~" if row["looping"] == row["runs"] else ""
    interval, speed = f"{ratio['low']:.2f} to {ratio['high']:.2f}", f"{row['tokens_per_s']:.0f} tokens/s"
    tip = f"{interval}, {speed}, {row['looping']} of {row['runs']} runs loop"
    return f'<span title="{tip}">{ratio["median"]:.2f}{more}{loops}</span>'


def listed(title: str, lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<div class="card muted"><h2>{escape(title)}</h2><ul>{items}</ul></div>' if lines else ""


def style() -> str:
    """Both palettes as CSS variables, of which the reader's own setting chooses, and assets/bench.css."""

    def variables(theme: str) -> str:
        return "".join(f"--{name}: {value}; " for name, value in palette()[theme].items())

    css = (assets() / "bench.css").read_text(encoding="utf-8")
    return (
        f":root {{ color-scheme: light dark; --sans: {palette()['sans']}; {variables('light')}}}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {variables('dark')}}} }}\n{css}"
    )
