"""`draftscope advice-regret`: the advice against a grid of settings, run afterwards on the same prompts.

Every value is checked before a model is loaded; results are saved after each kind of text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic.fields import FieldInfo

from draftscope.advise.question import Question
from draftscope.base.errors import DraftscopeError
from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.texts import texts
from draftscope_app.cli import options, plans, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, decimal, options_of, takes

DRAFTERS = ("draft", "sampled-tree", "topk-tree", "ngram", "suffix", "eagle3")
EACH_S, BOX_S = 20.0, 1500.0
_MORE = options_of(
    {
        "drafters": FieldInfo(annotation=tuple[str, ...], default=DRAFTERS, description="drafters to compare"),
        "concurrency": FieldInfo(annotation=tuple[int, ...], default=(1,), description="answers written together"),
    },
    lambda _: plans.MEASURED,
    {"drafters": "NAME,...", "concurrency": "N,..."},
    by_commas=frozenset({"drafters", "concurrency"}),
)

app = typer.Typer(add_completion=False)


@app.command()
@takes(
    more=_MORE,
    wanted=plans.plan_options(BenchPlan(repeats=2), ("kinds", "temperature", "tokens", "repeats")),
    loading=options.MODEL_OPTIONS,
)
def advice_regret(
    more: Given,
    wanted: Given,
    loading: Given,
    prompts: plans.Prompts = None,
    each: Annotated[
        float,
        typer.Option(parser=decimal, metavar="X", help="seconds for each advice", rich_help_panel=plans.MEASURED),
    ] = EACH_S,
    seconds: Annotated[
        float,
        typer.Option(
            parser=decimal, metavar="X", help="no kind of text starts later than this", rich_help_panel=plans.MEASURED
        ),
    ] = BOX_S,
    out: plans.Out = Path("advice-regret"),
) -> int:
    """Ask for advice on every kind of text, then run a grid of settings on the same prompts.

    Prints the table and writes it to advice-regret.json and advice-regret.md.
    """
    plan = plans.planned(wanted, BenchPlan(repeats=2))
    selected, _ = texts(plan, prompts)
    names = tuple(dict.fromkeys(more.get("drafters", DRAFTERS)))
    readers = tuple(dict.fromkeys(more.get("concurrency", (1,))))
    questions = [Question(length=plan.tokens, seconds=each, concurrency=count) for count in readers]
    if not questions:
        raise DraftscopeError("--concurrency names no number; give one, such as 1,4.")
    from draftscope.advise.regret import GridPlan, cells
    from draftscope.advise.regret_report import AdviceRegret
    from draftscope.measure.bench.report import machine
    from draftscope.measure.bench.systems import refuse_unknown

    refuse_unknown(names)
    plans.prepare_folder(out)
    asked = GridPlan(questions[0], plan.temperatures, readers, plan.repeats, seconds)
    load, _ = options.models(loading)
    lab = options.load(load)
    selected = plans.for_target(lab, plan, prompts, selected)
    found, text = [], ""
    for cell in cells(lab, asked, selected, names, lambda what: terminal.remark(f"Measuring {what} ...")):
        found.append(cell)
        text = AdviceRegret(machine(lab), asked, names, found).save(out)
    left = len(selected) * len(asked.temperatures) * len(readers) - len(found)
    if left:
        terminal.say(f"{left} kinds of text were not measured: --seconds {seconds:g} were over.")
    terminal.markdown(text)
    terminal.say(f"wrote advice-regret.json, advice-regret.md to {out}.")
    return ExitCode.OK
