"""`draftscope replay TRACE`: a recorded run's text, summary and metrics. Loads no model and never imports torch."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from draftscope.trace.result import Result, read
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.reports import run_report as report


class Replay(BaseModel):
    """The contract of `draftscope replay --json`. `warning` is empty unless the file breaks off."""

    model_config = ConfigDict(frozen=True)

    warning: str
    lanes: list[report.Replayed]


def replay(file: command_options.Trace, json: command_options.Json = False) -> int:
    """Print a recorded run: its text, a summary and the metrics.

    Of a file that was cut short, everything before the cut is printed, and a warning says so.
    """
    trace = read(file)
    if json:
        print(report.as_json(Replay(warning=trace.warning, lanes=list(map(report.replayed, trace)))))
    else:
        for number, run in enumerate(trace):
            print("\n" if number else "", end="")
            _show(run)
    if trace.warning:
        terminal.print_note(trace.warning)
    return ExitCode.OK


def _show(run: Result) -> None:
    """One lane for a person."""
    metrics = report.decoded(run).metrics
    ended = f"ended by {run.end.reason}" if run.end else "breaks off"
    head = f"[{run.start.lane}] {report.origin(run.start)}"
    text = run.start.prompt + report.given_text(run) + run.text
    print(report.printable("\n".join([head, "", text, "", f"{report.summary(metrics)}; {ended}"])))
    rows = report.metric_rows(metrics, report.solo_seconds(run))
    terminal.show(terminal.Table(("metric", "value"), rows))
