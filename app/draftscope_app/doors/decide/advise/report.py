"""The advice as one HTML file to hand to a colleague: nothing is fetched, plotly lies inside, once.

`page(report)` is pure: what `draftscope advise --json` prints in, HTML out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftscope.base.machine import machine_words
from draftscope.measure.bench.statistics import Interval
from draftscope.trace.figure_style import Plot
from draftscope_app.doors.decide.advise.map import AS_MEASURED, MAPS, drawn
from draftscope_app.engine.plural import count
from draftscope_app.reports.render import Table, render, render_document

RowJson = Mapping[str, Any]
FOLDER = Path(__file__).parent  # of the templates
SHOWN = 24  # candidates in the table, and every one that was run


def page(report: RowJson) -> str:
    """The whole file. `report` is what `draftscope advise --json` prints."""
    verdict, *limits = report["sentences"]
    drawings = [(which, *drawn(report, which, AS_MEASURED)) for which in MAPS]
    return render_document(
        FOLDER / "advice.html",
        "Draftscope advice",
        machine=machine_words(report["machine"]),
        question=in_words(report["question"]),
        verdict=verdict,
        limits=limits,
        candidates=_table(report),
        maps=[Plot(f"Map of the speedup: {which}", note, map_) for which, map_, note in drawings if map_ is not None],
        missing=dict.fromkeys(note for _, map_, note in drawings if map_ is None),
        ready=[engine for engine in report["ready"] if engine["settings"]],
        notes=report["notes"],
    )


def in_words(question: RowJson) -> str:
    """The question in words."""
    context = f", prompts of {question['context']} tokens" if question["context"] else ""
    return (
        f"Objective {question['objective']}, T = {question['temperature']:g}, answers of {question['length']} tokens, "
        f"{count(question['concurrency'], 'concurrent request')}{context}."
    )


def candidates(report: RowJson, box: str) -> str:
    """A table of candidates, predicted beside measured, in a box of the class `box`."""
    return render(FOLDER / "candidates.html", table=_table(report), box=box)


def _table(report: RowJson) -> Table:
    measured = {row["name"]: row for row in report["measured"]}
    rows = [row for place, row in enumerate(report["predicted"]) if place < SHOWN or row["name"] in measured]
    head = ("candidate", "tokens a round", "cost of a round", "predicted", "predicted for the run", "measured")
    caption = (
        "Speed over plain decoding's, or that of the objective; in brackets 95% bootstrap intervals over prompts. The "
        "cost is in rounds of plain decoding. What was not run is modelled: τ / (γ c + v + o)"
    )
    lines = [(row["name"], _cells(row, measured.get(row["name"]))) for row in rows]
    return Table("Candidates", caption, head, lines)


def _cells(row: RowJson, ran: RowJson | None) -> tuple[str, ...]:
    measured = (f"{ran['predicted']:.2f}", str(Interval(**ran["ratio"]))) if ran else ("-", "-")
    return f"{row['tau']['median']:.2f}", f"{row['cost']:.2f}", str(Interval(**row["ratio"])), *measured
