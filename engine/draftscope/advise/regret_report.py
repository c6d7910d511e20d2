"""Regret of the advice as JSON and Markdown. Saved after every cell, so that a run that is cut short leaves these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from draftscope.advise.regret import GridPlan, RegretCell
from draftscope.base.machine import machine_words
from draftscope.base.markdown import one_line, table
from draftscope.measure.bench.statistics import Interval

AIM, LEAST = 0.05, 0.97  # of the regret, and of the ratio of anything that is advised
NEAR = 0.10  # a prediction is near if it misses by less
HEAD = (
    "text", "T", "readers", "advice", "predicted", "in the proof", "in the grid", "best of the grid", "regret",
    "held out",
)  # fmt: skip


@dataclass(frozen=True)
class AdviceRegret:
    """All cells so far, and the machine that they were measured on."""

    machine: Mapping[str, str | int]
    plan: GridPlan
    drafters: tuple[str, ...]
    cells: Sequence[RegretCell]

    def save(self, folder: Path) -> str:
        """Writes `advice-regret.json` and `.md`; returns the Markdown."""
        text = markdown(self)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "advice-regret.json").write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        (folder / "advice-regret.md").write_text(text, encoding="utf-8")
        return text


def markdown(report: AdviceRegret) -> str:
    """Machine, method, a row for each cell, and what was reached."""
    plan = report.plan
    method = (
        f"Each kind of text was asked about for {plan.question.seconds:g} s, with the drafters "
        f"{', '.join(report.drafters)}; then every setting of a grid ran on the same prompts, {plan.repeats} repeats "
        f"after a warm-up, {plan.question.length} tokens, interleaved with plain decoding. Ratios are over plain "
        "decoding, medians over prompts, in brackets 95% bootstrap intervals. Regret is 1 - ratio of what was "
        "advised / the best of the grid, and rather overestimated, since the best is chosen from the runs that measure "
        "it. Held out: the best is chosen by one half of the repeats and measured in the other, the mean of both ways "
        "round. 'Leave it off' and 'cannot tell' count as plain."
    )
    rows = table(HEAD, [_row(cell) for cell in report.cells], "lrrlrrrlrr")
    machine = machine_words(report.machine)
    notes = list(dict.fromkeys(note for cell in report.cells for note in cell.notes))
    parts = [machine, method, rows, summary(report.cells)]
    if notes:
        parts.append("Notes:\n\n" + "\n".join(f"- {one_line(note)}" for note in notes))
    return "\n\n".join(parts) + "\n"


def summary(cells: Sequence[RegretCell]) -> str:
    """How many cells reach the aims."""
    if not cells:
        return "No kind of text was measured."
    good = sum(cell.regret <= AIM for cell in cells)
    regrets = [cell.regret for cell in cells]
    slow = sum(cell.ratio.median < LEAST for cell in cells)
    missed = [abs(cell.missed) for cell in cells if cell.missed is not None]
    near = sum(each <= NEAR for each in missed)
    said = (
        f"Regret is at most {AIM:.0%} in {good} of {len(cells)} cells, {fmean(regrets):.1%} in the mean and "
        f"{max(regrets):.1%} at most. {slow} of {len(cells)} are slower than plain by more than {1 - LEAST:.0%}."
    )
    held_out = [cell.held_out for cell in cells if cell.held_out is not None]
    if held_out:
        low = sum(each <= AIM for each in held_out)
        said += (
            f" Held out it is at most {AIM:.0%} in {low} of {len(held_out)} cells, {fmean(held_out):.1%} in the mean."
        )
    return f"{said} {near} of {len(missed)} predictions are within {NEAR:.0%} of what was measured." if missed else said


def _row(cell: RegretCell) -> list[str]:
    shown = [cell.predicted, cell.proven]
    numbers = [f"{value:.2f}" if value is not None else "-" for value in shown]
    verdict = cell.advised if cell.predicted is not None else f"{cell.verdict}"
    best = f"{cell.best}: {_ratio(cell.best_ratio)}"
    held_out = f"{cell.held_out:.1%}" if cell.held_out is not None else "-"
    where = [cell.kind, f"{cell.temperature:g}", str(cell.readers)]
    return [*where, verdict, *numbers, _ratio(cell.ratio), best, f"{cell.regret:.1%}", held_out]


def _ratio(ratio: Interval) -> str:
    known = f" [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio.low < ratio.high else ""
    return f"{ratio.median:.2f}{known}"
