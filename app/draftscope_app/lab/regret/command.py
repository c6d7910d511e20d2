"""`draftscope regret`: policies against the best fixed setting in hindsight, by kind of text; as JSON and Markdown.

Every value is checked before a model is loaded.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args

from draftscope.drafters.options import BanditOptions
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan, texts
from draftscope_app.cli import command_options, plans, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, option, options_of, takes, typed

PLAN = BenchPlan(temperatures=(1.0,), peers=False)  # minutes on two cores; at T = 0 most continuations loop
BRIEFLY = "one prompt a kind, two repeats"
QUICK = replace(PLAN, repeats=2, prompts_per_kind=1)
POLICIES: tuple[str, ...] = get_args(BanditOptions.model_fields["policy"].annotation)
ARMS = BanditOptions().arms
NAMES = tuple[str, ...]
COMPARED = options_of(
    {
        "arms": typed(NAMES, option("what the policies choose among", ARMS, plans.MEASURED, "NAME:FORM,...")),
        "policies": typed(NAMES, option("policies to compare", POLICIES, plans.MEASURED, "NAME,...")),
    },
    by_commas=frozenset({"arms", "policies"}),
)


@takes(
    compared=COMPARED,
    wanted=plans.plan_options(PLAN, ("kinds", "temperature", "tokens", "repeats")),
    loading=command_options.MODEL_OPTIONS,
)
def regret(
    compared: Given,
    wanted: Given,
    loading: Given,
    prompts: plans.Prompts = None,
    quick: Annotated[bool, command_options.make_option(BRIEFLY, None, plans.MEASURED, "--quick")] = False,
    out: plans.Out = Path("regret"),
    json: command_options.Json = False,
) -> int:
    """Compare policies with the best fixed setting in hindsight, by kind of text.

    Prints the tables and writes them to regret.json and regret.md.
    """
    plan = plans.make_plan(wanted, QUICK if quick else PLAN)
    arms = tuple(dict.fromkeys(compared.get("arms", ARMS)))
    policies = tuple(dict.fromkeys(compared.get("policies", POLICIES)))
    for policy in policies:
        Settings.of(drafter="bandit", arms=arms, policy=policy)
    selected, notes = texts(plan, prompts)
    plans.prepare_folder(out)
    from draftscope.drafters.policy.arms import arms_of
    from draftscope_app.lab.regret.regret import BanditChooser, arm_systems
    from draftscope_app.lab.regret.saved_regret import measure_regret

    arms_of(Settings.of(arms=arms))
    load, _ = command_options.models(loading)
    engine = command_options.load(load)
    choosers = [BanditChooser(engine, policy, arms) for policy in policies]
    for note in notes:
        terminal.print_note(note)
    report = measure_regret(engine, plan, choosers, arm_systems(engine, arms), selected, out, "regret")
    plans.print_report(report.notes, report.markdown(), report.as_json(), json)
    terminal.print_note(f"wrote regret.json, regret.md to {out}.")
    return ExitCode.OK
