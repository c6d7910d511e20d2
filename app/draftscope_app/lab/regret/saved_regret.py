"""The regret of choosers, written down kind by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from draftscope.base.prompts import Prompt
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.systems import System
from draftscope_app.cli import terminal
from draftscope_app.lab.regret.regret import Chooser, no_rows, regret
from draftscope_app.lab.regret.regret_report import RegretReport


def measure_regret(
    engine: DecodingEngine,
    plan: BenchPlan,
    choosers: Sequence[Chooser],
    grid: Sequence[System],
    texts: Mapping[str, Sequence[Prompt]],
    out: Path,
    name: str,
) -> RegretReport:
    """Measures the regret and writes it to `out` after every kind of text, so that a run cut short leaves these."""
    notes: list[str] = []
    report = RegretReport.of(engine, plan, no_rows(), notes)
    for rows in regret(
        engine, plan, choosers, grid, texts, notes, lambda what: terminal.print_status(f"Measuring {what} ...")
    ):
        report = RegretReport.of(engine, plan, rows, notes)
        report.save(out, name)
    return report
