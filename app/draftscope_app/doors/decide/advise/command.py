"""`draftscope advise`: speculate or not, with what, and what it saves; measured on your prompts and proven.

Every value is checked before a model is loaded. With --alpha nothing is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from draftscope.advise.question import Objective, Question
from draftscope.base.errors import DisturbedError, DraftscopeError, write_text
from draftscope.measure.bench.bench_plan import BenchPlan, texts
from draftscope_app.cli import command_options, plans, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.extra import plots
from draftscope_app.cli.fields import Given, option, options_of, read_options, takes

if TYPE_CHECKING:
    from draftscope.advise.planned import TypedValues
    from draftscope.advise.report import AdviceReport

ASKED, ELSEWHERE = "The question", "Measured elsewhere"
DEFAULT = Question()


class Options(BaseModel):
    """What `advise` takes beside the models: the question, or what was measured elsewhere."""

    kind: str | None = option("one kind of text only; default: all", None, ASKED, "KIND")
    drafters: tuple[str, ...] = option("drafters to compare; default: all that can run", (), ASKED, "NAME,...")
    objective: Objective = option("what should become better", DEFAULT.objective, ASKED)
    temperature: float = option("temperature", DEFAULT.temperature, ASKED)
    length: int = option("expected tokens of an answer", DEFAULT.length, ASKED)
    concurrency: int = option("concurrent requests", DEFAULT.concurrency, ASKED)
    context: int | None = option("tokens of the prompt; default: prompts as they are", None, ASKED)
    price_per_hour: float | None = option("price of an hour of this machine", None, ASKED)
    seconds: float = option("time for measuring, after calibrating", DEFAULT.seconds, ASKED)
    alpha: tuple[float, ...] = option(
        "acceptance of a drafted token if all before it were accepted: one value, or one for each position; nothing is "
        "run", (), ELSEWHERE,
    )  # fmt: skip
    unconditional: bool = option(
        "--alpha holds shares of all rounds by position, as servers count them", False, ELSEWHERE
    )
    c: float | None = option(
        "a draft step, in rounds of plain decoding; default: this machine's calibration", None, ELSEWHERE
    )
    v: tuple[float, ...] = option(
        "verifying 1, 2, ... drafted tokens, in the same unit; the last one holds for all longer drafts; default: 1",
        (), ELSEWHERE,
    )  # fmt: skip
    o: float | None = option("the rest of a round, in the same unit; default: 0", None, ELSEWHERE)
    acceptance: Path | None = option(
        "read --alpha from vLLM's /metrics page or log, a log of rounds, JSON of 'vllm bench serve', or shares by "
        "position", None, ELSEWHERE, "FILE",
    )  # fmt: skip
    report: Path | None = option("write a page for a colleague", None, command_options.OUTPUT, "FILE.html")


@takes(given=options_of(Options.model_fields, by_commas=frozenset({"drafters"})), loading=command_options.MODEL_OPTIONS)
def advise(given: Given, loading: Given, prompts: plans.Prompts = None, json: command_options.Json = False) -> int:
    """Should these models speculate on these prompts? With which drafter, how long a draft, and what does it save?

    Measures acceptance on the prompts, predicts every candidate, runs the best against plain decoding, and says "turn
    it on", "leave it off", or that it cannot be told.
    """
    chosen = read_options(Options, given)
    question = Question(**{field.name: getattr(chosen, field.name) for field in fields(Question)})
    values = _typed(chosen)
    if chosen.report is not None:
        plans.prepare_folder(chosen.report.parent)
    if values is None:
        advice = _measured(question, loading, prompts, chosen.kind, chosen.drafters)
    else:
        advice = _planned(question, loading, values)
    if chosen.report is not None:
        _write_page(advice, chosen.report)
    if json:
        print(advice.as_json())
    else:
        _show(advice)
    return ExitCode.OK


def _typed(chosen: Options) -> TypedValues | None:
    """The values measured elsewhere, if acceptance was given."""
    alpha, unconditional = chosen.alpha, chosen.unconditional
    if chosen.acceptance is not None:
        if alpha:
            raise DraftscopeError("--alpha and --acceptance both name the acceptance; give one of them.")
        from draftscope.advise.elsewhere import read

        measured = read(chosen.acceptance)
        alpha, unconditional = measured.alpha, not measured.conditional
        shown = ", ".join(f"{share:.3f}" for share in alpha)
        terminal.print_status(f"Acceptance by position from {measured.source}: {shown}")
    if not alpha:
        if chosen.c is not None or chosen.v or chosen.o is not None:
            raise DraftscopeError("--c, --v and --o go with --alpha or --acceptance, measured elsewhere; give one too.")
        return None
    if chosen.v and chosen.c is None:
        raise DraftscopeError("--v needs --c, a draft step in the same unit; without both, the calibration is used.")
    from draftscope.advise.planned import TypedValues

    return TypedValues(alpha, unconditional, chosen.c, chosen.v or (1.0,), chosen.o or 0.0)


def _planned(question: Question, loading: Given, values: TypedValues) -> AdviceReport:
    from draftscope.advise.planned import planned
    from draftscope.advise.round_costs import CalibratedCosts
    from draftscope.base import costs
    from draftscope.base.steps import last

    if values.c is not None:
        return planned(question, values)
    chosen, drafter = command_options.models(loading)
    engine = command_options.load(chosen)
    with terminal.show_progress("Calibrating") as watch:
        calibration = last(engine.calibrated(), watch)
    if calibration.doubts:
        raise DisturbedError(f"{' '.join(calibration.doubts)} {costs.NOT_KEPT}")
    name = drafter if drafter in calibration.drafting else next((n for n in calibration.drafting if n != "plain"), None)
    if name is None:
        raise DraftscopeError("No drafter's costs are calibrated for these models; load a draft model, or give --c.")
    return planned(question, values, CalibratedCosts(calibration, question.context or calibration.context), name)


def _measured(
    question: Question, loading: Given, prompts: Path | None, kind: str | None, names: Sequence[str]
) -> AdviceReport:
    plan = BenchPlan(kinds=(kind,) if kind else ())
    selected, notes = texts(plan, prompts)
    from draftscope.advise.advise import advise as advised
    from draftscope.base.costs import load_saved
    from draftscope.decode.calibration import measured_for
    from draftscope.measure.bench.systems import refuse_unknown

    refuse_unknown(names)
    chosen, _ = command_options.models(loading)
    engine = command_options.load(chosen)
    selected = plans.for_target(engine, plan, prompts, selected)
    known = load_saved(measured_for(engine)) is not None
    first = "" if known else ", after the costs of rounds on this machine, which are measured once"
    terminal.print_note(
        f"This takes up to {question.seconds:g} s{first}; it ends as soon as the answer is clear, at temperatures 0 "
        "and 1."
    )
    with terminal.show_progress("Advising") as watch:
        return advised(engine, question, selected, names, notes, watch)


def _show(report: AdviceReport) -> None:
    """The verdict and its limits, the candidates, settings for other engines; notes on stderr."""
    for note in report.notes:
        terminal.print_note(" ".join(note.split()))
    print("\n".join(report.sentences))
    print()
    terminal.show(candidates_table(report))
    if report.alpha and report.measured:
        rates = ", ".join(map(str, report.alpha))
        print(f"\nAcceptance by position, {report.chosen.candidate.name}, given that all before was accepted: {rates}")
    for ready in report.ready:
        shown = ready.settings or f"{ready.engine} {ready.note}."
        note = f" {ready.note}" if ready.settings and ready.note else ""
        print(f"\n{ready.engine} ({ready.checked}):{note}\n{shown}")


def candidates_table(report: AdviceReport) -> terminal.Table:
    """The best candidate of each drafter, and all that were run: predicted beside measured."""
    from draftscope.advise.speed_model import best_by_drafter

    measured = {run.candidate: run for run in report.measured}
    run_here = (p for p in report.predicted if p.candidate in measured)
    shown = dict.fromkeys([*best_by_drafter(report.predicted), *run_here])
    rows = []
    for p in sorted(shown, key=lambda p: -p.ratio.median):
        ran = measured.get(p.candidate)
        run = str(ran.ratio) if ran else "-"
        same = f"{ran.predicted:.2f}" if ran else "-"
        rows.append([p.candidate.name, f"{p.tau.median:.2f}", f"{p.cost:.2f}", f"{p.ratio.median:.2f}", same, run])
    head = ["candidate", "tokens a round", "cost of a round", "predicted", "predicted for the run", "measured"]
    title = "Over plain decoding; the cost of a round is in rounds of plain decoding:"
    return terminal.Table(head, rows, frozenset(range(1, len(head))), title)


def _write_page(report: AdviceReport, file: Path) -> None:
    """Writes the page, or says that plotly is missing."""
    import json as jsonlib

    with plots("--report"):
        from draftscope_app.doors.decide.advise.report import page

        write_text(file, page(jsonlib.loads(report.as_json())))
        terminal.print_note(f"wrote {file}.")
