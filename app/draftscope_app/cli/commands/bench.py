"""`draftscope bench`: drafters and other programs, measured; as JSON, as Markdown and as a page of plots.

Every value is checked before a model is loaded. If the draft cannot be loaded, the rest is measured without it.
"""

from __future__ import annotations

import json as jsonlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.measure.bench.bench_plan import QUICK, BenchPlan, texts
from draftscope_app.cli import command_options, plans, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.extra import plots
from draftscope_app.cli.fields import Given, takes

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine
    from draftscope.measure.bench.report import BenchReport

BRIEFLY = "one prompt a kind, gamma 4; minutes on two cores"


@takes(wanted=plans.plan_options(BenchPlan()), loading=command_options.MODEL_OPTIONS)
def bench(
    wanted: Given,
    loading: Given,
    prompts: plans.Prompts = None,
    quick: Annotated[bool, command_options.make_option(BRIEFLY, None, plans.MEASURED, "--quick")] = False,
    out: plans.Out = Path("bench"),
    json: command_options.Json = False,
) -> int:
    """Measure drafters, and other programs on the same weights.

    Prints the tables and writes them to bench.json, bench.md and bench.html, which also has plots.
    """
    plan = plans.make_plan(wanted, QUICK if quick else BenchPlan())
    selected, notes = texts(plan, prompts)
    plans.prepare_folder(out)
    from draftscope.measure.bench.benchmark import benchmark, save
    from draftscope.measure.bench.systems import refuse_unknown

    refuse_unknown(plan.drafters)
    chosen, _ = command_options.models(loading)
    engine, more = _loaded(chosen)
    report = benchmark(engine, plan, plans.for_target(engine, plan, prompts, selected), [*notes, *more])
    plans.print_report(report.notes, save(report, out), report.as_json(), json)
    terminal.print_note(f"wrote {', '.join(['bench.json', 'bench.md', *_page(report, out)])} to {out}.")
    return ExitCode.OK


def _loaded(chosen: LoadSettings) -> tuple[DecodingEngine, list[str]]:
    """The pair. If a draft was named and cannot be loaded: the target alone, and why."""
    try:
        return command_options.load(chosen), []
    except DraftscopeError as error:
        if chosen.draft is None:
            raise
        from draftscope.models.loading import embedded

        target = chosen.target or str(embedded.home("target"))
        target_alone = command_options.load(replace(chosen, target=target, draft=None, draft_revision=None))
        return target_alone, [f"Measured without the draft '{chosen.draft}'. {error}"]


def _page(report: BenchReport, out: Path) -> list[str]:
    """Writes `bench.html`; says so where plotly is not installed."""
    made = list[str]()
    with plots("bench.html"):
        from draftscope_app.reports.bench_page import page

        (out / "bench.html").write_text(page(jsonlib.loads(report.as_json())), encoding="utf-8")
        made.append("bench.html")
    return made
