"""`draftscope advice-regret`: the advice against a grid of settings, run afterwards on the same prompts.

Every value is checked before a model is loaded; results are saved after each kind of text.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from pydantic.fields import FieldInfo

from draftscope.advise.question import Question
from draftscope.base.errors import DraftscopeError
from draftscope.measure.bench.plan import BenchPlan, texts
from draftscope_app.cli import options, plans, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, decimal, options_of, takes

DRAFTERS = ("draft", "sampled-tree", "topk-tree", "ngram", "suffix", "eagle3")
PLAN = BenchPlan(repeats=2, seconds=1500.0, peers=False)
COMPARED = options_of(
    {
        "drafters": FieldInfo(annotation=tuple[str, ...], default=DRAFTERS, description="drafters to compare"),
        "concurrency": FieldInfo(annotation=tuple[int, ...], default=(1,), description="concurrent requests"),
    },
    lambda _: plans.MEASURED,
    {"drafters": "NAME,...", "concurrency": "N,..."},
    by_commas=frozenset({"drafters", "concurrency"}),
)

app = typer.Typer(add_completion=False)


@app.command()
@takes(
    compared=COMPARED,
    wanted=plans.plan_options(PLAN, ("kinds", "temperature", "tokens", "repeats")),
    loading=options.MODEL_OPTIONS,
)
def advice_regret(
    compared: Given,
    wanted: Given,
    loading: Given,
    prompts: plans.Prompts = None,
    advice_seconds: Annotated[
        float,
        typer.Option(
            "--each", parser=decimal, metavar="X", help="seconds for each advice", rich_help_panel=plans.MEASURED
        ),
    ] = 20.0,
    seconds: Annotated[
        float,
        typer.Option(
            parser=decimal, metavar="X", help="no kind of text starts later than this", rich_help_panel=plans.MEASURED
        ),
    ] = PLAN.seconds or 0.0,
    out: plans.Out = Path("advice-regret"),
) -> int:
    """Ask for advice on every kind of text, then run a grid of settings on the same prompts.

    Prints the table and writes it to advice-regret.json and advice-regret.md.
    """
    concurrency = tuple(dict.fromkeys(compared.get("concurrency", (1,))))
    if not concurrency:
        raise DraftscopeError("--concurrency names no number; give one, such as 1,4.")
    plan = replace(plans.planned(wanted, PLAN), batches=concurrency, seconds=seconds)
    selected, _ = texts(plan, prompts)
    names = tuple(dict.fromkeys(compared.get("drafters", DRAFTERS)))
    question = Question(length=plan.tokens, seconds=advice_seconds, concurrency=max(plan.batches))
    from draftscope.advise.regret import AdviceChooser, grid, summary
    from draftscope.measure.bench.systems import refuse_unknown

    refuse_unknown(names)
    plans.prepare_folder(out)
    load, _ = options.models(loading)
    engine = options.load(load)
    selected = plans.for_target(engine, plan, prompts, selected)
    advice = AdviceChooser(engine, question, names)
    report = plans.measure_regret(engine, plan, [advice], grid(engine, names), selected, out, "advice-regret", summary)
    cells = len(selected) * len(plan.temperatures) * len(plan.batches)
    if left := cells - len(report.rows.query("policy")):
        terminal.print_note(f"{left} kinds of text were not measured: --seconds {seconds:g} were over.")
    terminal.markdown(report.markdown())
    terminal.print_note(f"wrote advice-regret.json, advice-regret.md to {out}.")
    return ExitCode.OK
