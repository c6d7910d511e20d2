"""`draftscope advise`: speculate or not, with what, and what it saves; measured on your prompts and proven.

Every value is checked before a model is loaded. With --alpha nothing is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic.fields import FieldInfo

from draftscope.advise.question import Objective, Question
from draftscope.base.errors import DraftscopeError
from draftscope.measure.bench.plan import BenchPlan, texts
from draftscope_app.cli import options, plans, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, decimal, options_of, takes, whole

if TYPE_CHECKING:
    from draftscope.advise.planned import TypedValues
    from draftscope.advise.report import AdviceReport
    from draftscope.measure.bench.statistics import Interval

ASKED, ELSEWHERE = "The question", "Measured elsewhere"
DEFAULT = Question()

_TYPED: dict[str, tuple[Any, str]] = {
    "alpha": (tuple[float, ...], "acceptance of a drafted token if all before it were accepted: one value, or one for "
        "each position; nothing is run"),
    "unconditional": (bool, "--alpha holds shares of all rounds by position, as servers count them"),
    "c": (float, "a draft step, in rounds of plain decoding; default: this machine's calibration"),
    "v": (tuple[float, ...], "verifying 1, 2, ... drafted tokens, in the same unit; the last one holds for all longer "
        "drafts; default: 1"),
    "o": (float, "the rest of a round, in the same unit; default: 0"),
}  # fmt: skip
TYPED = options_of(
    {name: FieldInfo(annotation=kind, default=None, description=about) for name, (kind, about) in _TYPED.items()},
    lambda _: ELSEWHERE,
)

Kind = Annotated[
    str | None, typer.Option(metavar="KIND", help="one kind of text only; default: all", rich_help_panel=ASKED)
]
Drafters = Annotated[
    str, typer.Option(metavar="NAME,...", help="drafters to compare; default: all that can run", rich_help_panel=ASKED)
]
WhatFor = Annotated[Objective, typer.Option(help="what should become better", rich_help_panel=ASKED, metavar="NAME")]
Temperature = Annotated[float, typer.Option(parser=decimal, metavar="X", help="temperature", rich_help_panel=ASKED)]
Length = Annotated[
    int, typer.Option(parser=whole, metavar="N", help="expected tokens of an answer", rich_help_panel=ASKED)
]
Concurrency = Annotated[int, typer.Option(parser=whole, metavar="N", help="concurrent requests", rich_help_panel=ASKED)]
Context = Annotated[
    int | None,
    typer.Option(
        parser=whole, metavar="N", help="tokens of the prompt; default: prompts as they are", rich_help_panel=ASKED
    ),
]
Price = Annotated[
    float | None,
    typer.Option(parser=decimal, metavar="X", help="price of an hour of this machine", rich_help_panel=ASKED),
]
Seconds = Annotated[
    float,
    typer.Option(parser=decimal, metavar="X", help="time for measuring, after calibrating", rich_help_panel=ASKED),
]
Acceptance = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=ELSEWHERE,
        help="read --alpha from vLLM's /metrics page or log, JSON of 'vllm bench serve', or shares by position",
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html", help="write a page for a colleague", rich_help_panel=options.OUTPUT),
]

app = typer.Typer(add_completion=False)


@app.command()
@takes(loading=options.MODEL_OPTIONS, elsewhere=TYPED)
def advise(
    loading: Given,
    elsewhere: Given,
    prompts: plans.Prompts = None,
    kind: Kind = None,
    drafters: Drafters = "",
    objective: WhatFor = DEFAULT.objective,
    temperature: Temperature = DEFAULT.temperature,
    length: Length = DEFAULT.length,
    concurrency: Concurrency = DEFAULT.concurrency,
    context: Context = None,
    price_per_hour: Price = None,
    seconds: Seconds = DEFAULT.seconds,
    acceptance: Acceptance = None,
    report: ReportFile = None,
    json: options.Json = False,
) -> int:
    """Should these models speculate on these prompts? With which drafter, how long a draft, and what does it save?

    Measures acceptance on the prompts, predicts every candidate, runs the best against plain decoding, and says "turn
    it on", "leave it off", or that it cannot be told.
    """
    question = Question(objective, temperature, length, concurrency, context, price_per_hour, seconds)
    values = _typed(_read_in(elsewhere, acceptance))
    if report is not None:
        plans.prepare_folder(report.parent)
    advice = (
        _measured(question, loading, prompts, kind, drafters) if values is None else _planned(question, loading, values)
    )
    if report is not None:
        _write_page(advice, report)
    if json:
        print(advice.as_json())
    else:
        _show(advice)
    return ExitCode.OK


def _read_in(given: Given, file: Path | None) -> Given:
    """What was given, with the acceptance of the file."""
    if file is None:
        return given
    if given.get("alpha"):
        raise DraftscopeError("--alpha and --acceptance both name the acceptance; give one of them.")
    from draftscope.advise.elsewhere import read

    measured = read(file)
    terminal.print_status(
        f"Acceptance by position from {measured.source}: {', '.join(f'{alpha:.3f}' for alpha in measured.alpha)}"
    )
    return {**given, "alpha": list(measured.alpha), "unconditional": not measured.conditional}


def _typed(given: Given) -> TypedValues | None:
    """The values measured elsewhere, if --alpha was given."""
    if not given.get("alpha"):
        if set(given) - {"unconditional"}:
            raise DraftscopeError("--c, --v and --o go with --alpha or --acceptance, measured elsewhere; give one too.")
        return None
    from draftscope.advise.planned import TypedValues

    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if "v" in values and "c" not in values:
        raise DraftscopeError("--v needs --c, a draft step in the same unit; without both, the calibration is used.")
    return TypedValues(**values)


def _planned(question: Question, loading: Given, values: TypedValues) -> AdviceReport:
    from draftscope.advise.costs import CalibratedCosts
    from draftscope.advise.planned import planned
    from draftscope.base import costs
    from draftscope.base.steps import last

    if values.c is not None:
        return planned(question, values)
    chosen, drafter = options.models(loading)
    engine = options.load(chosen)
    with terminal.following("Calibrating") as watch:
        calibration = last(engine.calibrated(), watch)
    if calibration.doubts:
        raise DraftscopeError(f"{' '.join(calibration.doubts)} {costs.NOT_KEPT}")
    name = drafter if drafter in calibration.drafting else next((n for n in calibration.drafting if n != "plain"), None)
    if name is None:
        raise DraftscopeError("No drafter's costs are calibrated for these models; load a draft model, or give --c.")
    return planned(question, values, CalibratedCosts(calibration, question.context or calibration.context), name)


def _measured(
    question: Question, loading: Given, prompts: Path | None, kind: str | None, drafters: str
) -> AdviceReport:
    plan = BenchPlan(kinds=(kind,) if kind else ())
    selected, notes = texts(plan, prompts)
    names = [name.strip() for name in drafters.split(",") if name.strip()]
    from draftscope.advise.advise import advise as advised
    from draftscope.base.costs import load_saved
    from draftscope.decode.calibrate import measured_for
    from draftscope.measure.bench.systems import refuse_unknown

    refuse_unknown(names)
    chosen, _ = options.models(loading)
    engine = options.load(chosen)
    selected = plans.for_target(engine, plan, prompts, selected)
    known = load_saved(measured_for(engine)) is not None
    first = "" if known else ", after the costs of rounds on this machine, which are measured once"
    terminal.print_note(
        f"This takes up to {question.seconds:g} s{first}; it ends as soon as the answer is clear, at temperatures 0 "
        "and 1."
    )
    with terminal.following("Advising") as watch:
        return advised(engine, question, selected, names, notes, watch)


def _show(report: AdviceReport) -> None:
    """The verdict and its limits, the candidates, settings for other engines; notes on stderr."""
    for note in report.notes:
        terminal.print_note(" ".join(note.split()))
    print("\n".join(report.sentences))
    print()
    terminal.show(candidates_table(report))
    if report.alpha and report.measured:
        rates = ", ".join(map(_interval, report.alpha))
        print(f"\nAcceptance by position, {report.chosen.candidate.name}, given that all before was accepted: {rates}")
    for ready in report.ready:
        shown = ready.settings or f"{ready.engine} {ready.note}."
        note = f" {ready.note}" if ready.settings and ready.note else ""
        print(f"\n{ready.engine} ({ready.checked}):{note}\n{shown}")


def candidates_table(report: AdviceReport) -> terminal.Table:
    """The best candidate of each drafter, and all that were run: predicted beside measured."""
    from draftscope.advise.model import best_by_drafter

    measured = {run.candidate: run for run in report.measured}
    run_here = (p for p in report.predicted if p.candidate in measured)
    shown = dict.fromkeys([*best_by_drafter(report.predicted), *run_here])
    rows = []
    for p in sorted(shown, key=lambda p: -p.ratio.median):
        ran = measured.get(p.candidate)
        run = _interval(ran.ratio) if ran else "-"
        same = f"{ran.predicted:.2f}" if ran else "-"
        rows.append([p.candidate.name, f"{p.tau.median:.2f}", f"{p.cost:.2f}", f"{p.ratio.median:.2f}", same, run])
    head = ["candidate", "tokens a round", "cost of a round", "predicted", "predicted for the run", "measured"]
    title = "Over plain decoding; the cost of a round is in rounds of plain decoding:"
    return terminal.Table(head, rows, frozenset(range(1, len(head))), title)


def _interval(ratio: Interval) -> str:
    """Without brackets where a single prompt leaves no ratio."""
    return f"{ratio.median:.2f}" + (f" [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio.low < ratio.high else "")


def _write_page(report: AdviceReport, file: Path) -> None:
    """Writes the page, or says that plotly is missing."""
    import json as jsonlib

    try:
        from draftscope_app.reports.advice_page import page
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("plotly"):
            raise
        terminal.print_note("--report needs plotly; install it with: pip install 'draftscope[app]'.")
        return
    try:
        file.write_text(page(jsonlib.loads(report.as_json())), encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DraftscopeError(f"--report {file}: the page cannot be written ({reason}); name another file.") from None
    terminal.print_note(f"wrote {file}.")
