"""The advice as one HTML file to hand to a colleague: nothing is fetched, plotly lies inside, once.

`page(report)` is pure: what `draftscope advise --json` prints in, HTML out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from plotly.offline import get_plotlyjs

from draftscope.base.machine import machine_words
from draftscope_app.reports.advice_map import AS_MEASURED, MAPS, drawn
from draftscope_app.reports.bench_page import figure, listed, style
from draftscope_app.reports.bench_plots import Plot

RowJson = Mapping[str, Any]
SHOWN = 24  # candidates in the table, and every one that was run


def page(report: RowJson) -> str:
    """The whole file. `report` is what `draftscope advise --json` prints."""
    verdict, *more = report["sentences"]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Draftscope advice</title>'
        f"<style>{style()}</style><script>{get_plotlyjs()}</script></head><body><main>"
        f'<h1>Should it speculate?</h1><p class="muted">{escape(machine_words(report["machine"]))}</p>'
        f'<p class="muted">{escape(in_words(report["question"]))}</p>'
        f'<p class="lead">{escape(verdict)}</p>{listed("Where this ends", more)}'
        f"{candidates(report, 'card')}{_maps(report)}"
        f"{_ready(report['ready'])}{listed('Notes', report['notes'])}</main></body></html>\n"
    )


def in_words(question: RowJson) -> str:
    """The question in words."""
    context = f", prompts of {question['context']} tokens" if question["context"] else ""
    return (
        f"Objective {question['objective']}, T = {question['temperature']:g}, answers of {question['length']} tokens, "
        f"concurrency {question['concurrency']}{context}."
    )


def candidates(report: RowJson, box: str) -> str:
    """A table of candidates, predicted beside measured, in a box of the class `box`."""
    measured = {row["name"]: row for row in report["measured"]}
    rows = [row for place, row in enumerate(report["predicted"]) if place < SHOWN or row["name"] in measured]
    head = ("candidate", "tokens a round", "cost of a round", "predicted", "predicted for the run", "measured")
    body = "".join(_row(row, measured.get(row["name"])) for row in rows)
    titles = "".join(f'<th scope="col">{escape(title)}</th>' for title in head)
    caption = (
        "Speed over plain decoding's, or that of the objective; in brackets 95% bootstrap intervals over prompts. The "
        "cost is in rounds of plain decoding. What was not run is modelled: tokens a round / (gamma c + v + o)"
    )
    return (
        f'<div class="{box}" role="region" tabindex="0" aria-label="Candidates"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: RowJson, ran: RowJson | None) -> str:
    same = f"{ran['predicted']:.2f}" if ran else "-"
    cells = (f"{row['tau']['median']:.2f}", f"{row['cost']:.2f}", _interval(row["ratio"]), same)
    shown = "".join(f"<td>{cell}</td>" for cell in (*cells, _interval(ran["ratio"]) if ran else "-"))
    return f'<tr><th scope="row">{escape(row["name"])}</th>{shown}</tr>'


def _interval(ratio: RowJson) -> str:
    """Without brackets where a single prompt leaves no interval."""
    known = ratio["low"] < ratio["high"]
    return f"{ratio['median']:.2f}" + (f" [{ratio['low']:.2f}, {ratio['high']:.2f}]" if known else "")


def _maps(report: RowJson) -> str:
    """The three maps as measured, below each other; a sentence in place of one that cannot be drawn."""
    found = [(which, *drawn(report, which, AS_MEASURED)) for which in MAPS]
    plots = [Plot(f"Map of the speedup: {which}", note, map_) for which, map_, note in found if map_ is not None]
    figures = "".join(figure(number, plot) for number, plot in enumerate(plots))
    missing = dict.fromkeys(note for _, map_, note in found if map_ is None)
    sentences = "".join(f'<p class="muted">{escape(note)}</p>' for note in missing)
    return f'<div class="maps">{figures}{sentences}</div>'


def _ready(ready: Sequence[RowJson]) -> str:
    """Settings of other engines, each with what it was compared with."""
    shown = "".join(
        f'<h2>{escape(each["engine"])}</h2><p class="muted">{escape(each["checked"])}. {escape(each["note"])}</p>'
        f"<pre>{escape(each['settings'])}</pre>"
        for each in ready
        if each["settings"]
    )
    return f'<div class="card" role="region" tabindex="0" aria-label="Settings">{shown}</div>' if shown else ""
