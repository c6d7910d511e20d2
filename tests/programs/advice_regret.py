"""How good the advice is: it is asked on every kind of text, then a grid of settings runs on the same prompts.

    python -m tests.programs.advice_regret --temperature 0,1 --out advice-regret

"Leave it off" and "cannot tell" count as plain decoding, which is part of the grid. The results are saved after each
kind of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Annotated

import pandas as pd
import typer
from pydantic.fields import FieldInfo

from draftscope.advise import proof
from draftscope.advise.advice_verdict import Verdict
from draftscope.advise.advise import advise
from draftscope.advise.candidates import GAMMAS, SHAPES, Candidate, implied, sizes_of
from draftscope.advise.probed_acceptance import able
from draftscope.advise.question import Question
from draftscope.advise.report import AdviceReport
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import DrafterInfo
from draftscope.measure.bench.bench_plan import BenchPlan, texts
from draftscope.measure.bench.rows import Paired, counted
from draftscope.measure.bench.statistics import LEVEL, Interval
from draftscope.measure.bench.systems import PLAIN, DrafterSystem, System
from draftscope_app.cli import command_options, plans
from draftscope_app.cli.fields import Given, options_of, takes
from draftscope_app.lab.regret.regret import Chooser, ChosenSetting, RegretCell
from draftscope_app.lab.regret.saved_regret import measure_regret

DRAFTERS = ("draft", "sampled-tree", "topk-tree", "ngram", "suffix", "eagle3")
PLAN = BenchPlan(repeats=2, seconds=1500.0, peers=False)
COMPARED = options_of(
    {
        "drafters": FieldInfo(annotation=tuple[str, ...], default=DRAFTERS, description="drafters to compare"),
        "concurrency": FieldInfo(annotation=tuple[int, ...], default=(1,), description="concurrent requests"),
        "each": FieldInfo(annotation=float, default=20.0, description="seconds for each advice"),
        "seconds": FieldInfo(annotation=float, default=PLAN.seconds, description="no kind of text starts later"),
    },
    by_commas=frozenset({"drafters", "concurrency"}),
)
GRID_GAMMAS = (1, 2, 3, 4, 6, 8)
GRID_SHAPES = ((2,), (2, 1), (2, 1, 1), (2, 2, 1), (3, 2, 1))
assert set(GRID_GAMMAS) <= set(GAMMAS) and set(GRID_SHAPES) <= set(SHAPES)
MAX_REGRET, MIN_RATIO = 0.05, 0.97  # the aims: of the regret, and of the ratio of anything that is advised
MAX_MISS = 0.10  # a prediction is near if it misses by less


class AdviceChooser(Chooser):
    """The advice for a cell's prompts, given in `question.seconds`; `names` are the drafters to compare."""

    name = "advice"

    def __init__(self, engine: DecodingEngine, question: Question, names: Sequence[str]) -> None:
        self._lab = engine
        self._question = question
        self._names = names

    def choose(self, cell: RegretCell) -> ChosenSetting:
        report = advise(self._lab, self._of(cell), {cell.kind: cell.prompts}, self._names)
        return chosen(self._lab, report)

    def compare(self, cell: RegretCell, pairs: Sequence[Paired]) -> Interval:
        """The objective's ratio, as the advice predicts it; texts that loop do not count, unless all do."""
        return proof.Ratios.of(self._of(cell), counted(pairs)).interval(LEVEL)

    def _of(self, cell: RegretCell) -> Question:
        return replace(self._question, temperature=cell.temperature, concurrency=cell.concurrency)


def chosen(engine: DecodingEngine, report: AdviceReport) -> ChosenSetting:
    """What to decode with after this advice, with what was predicted and what its own runs gave."""
    facts = {"verdict": str(report.verdict)}
    if report.verdict is not Verdict.ON:
        return ChosenSetting(DrafterSystem(engine, PLAIN), facts | {"predicted": None, "proven": None}, report.notes)
    measured = next(one for one in report.measured if one.candidate == report.chosen.candidate)
    more = {"predicted": measured.predicted, "proven": measured.ratio.median}
    return ChosenSetting(DrafterSystem(engine, measured.candidate.label), facts | more, report.notes)


def grid(engine: DecodingEngine, names: Sequence[str]) -> list[System]:
    """Plain decoding and the settings of the named drafters."""
    labels = [PLAIN, *(candidate.label for candidate in grid_candidates(able(engine, names)))]
    return [DrafterSystem(engine, label) for label in labels]


def grid_candidates(infos: Sequence[DrafterInfo]) -> list[Candidate]:
    """The settings that are run, of every drafter."""
    return [
        candidate
        for info in infos
        for candidate in implied(sizes_of(info)[0])
        if candidate.form is None or candidate.gamma in GRID_GAMMAS or candidate.shape in GRID_SHAPES
    ]


def summary(rows: pd.DataFrame) -> str:
    """How many cells reach the aims."""
    advised = rows[rows["policy"]].to_dict("records")
    if not advised:
        return "No kind of text was measured."
    regrets = [row["regret"] for row in advised]
    slow = sum(row["ratio_to_plain"].median < MIN_RATIO for row in advised)
    parts = [
        f"Regret is at most {MAX_REGRET:.0%} in {_low(regrets)} of {len(advised)} cells, {fmean(regrets):.1%} in the "
        f"mean and {max(regrets):.1%} at most.",
        f"{slow} of {len(advised)} are slower than plain by more than {1 - MIN_RATIO:.0%}.",
    ]
    held_out = [row["held_out"] for row in advised if pd.notna(row["held_out"])]
    if held_out:
        parts.append(
            f"Held out it is at most {MAX_REGRET:.0%} in {_low(held_out)} of {len(held_out)} cells, "
            f"{fmean(held_out):.1%} in the mean."
        )
    predictions = [row for row in advised if pd.notna(row["predicted"])]
    if predictions:
        near = sum(abs(row["predicted"] / row["ratio_to_plain"].median - 1) <= MAX_MISS for row in predictions)
        parts.append(f"{near} of {len(predictions)} predictions are within {MAX_MISS:.0%} of what was measured.")
    return " ".join(parts)


def _low(regrets: Sequence[float]) -> int:
    return sum(regret <= MAX_REGRET for regret in regrets)


app = typer.Typer(add_completion=False)


@app.command()
@takes(
    compared=COMPARED,
    wanted=plans.plan_options(PLAN, ("kinds", "temperature", "tokens", "repeats")),
    loading=command_options.MODEL_OPTIONS,
)
def run(
    compared: Given,
    wanted: Given,
    loading: Given,
    prompts: plans.Prompts = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="folder for the files")] = Path("advice-regret"),
) -> int:
    """Ask for advice on every kind of text, then run a grid of settings on the same prompts."""
    concurrency = tuple(compared.get("concurrency", (1,)))
    plan = plans.make_plan(wanted, replace(PLAN, batches=concurrency, seconds=compared.get("seconds", PLAN.seconds)))
    question = Question(length=plan.tokens, seconds=compared.get("each", 20.0), concurrency=max(plan.batches))
    selected, _ = texts(plan, prompts)
    plans.prepare_folder(out)
    engine = command_options.load(command_options.models(loading)[0])
    selected = plans.for_target(engine, plan, prompts, selected)
    names = tuple(compared.get("drafters", DRAFTERS))
    advice = AdviceChooser(engine, question, names)
    report = measure_regret(engine, plan, [advice], grid(engine, names), selected, out, "advice-regret")
    print(f"{report.markdown()}\n{summary(report.rows)}")
    cells = len(selected) * len(plan.temperatures) * len(plan.batches)
    if left := cells - len(report.rows.query("policy")):
        print(f"{left} kinds of text were not measured: --seconds {plan.seconds:g} were over.")
    return 0


if __name__ == "__main__":
    app()
