"""`draftscope replay TRACE`: a recorded run's text, summary and metrics. Loads no model and never imports torch."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from draftscope.trace import files
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.reports import lanes as report


class Replay(BaseModel):
    """The contract of `draftscope replay --json`. `warning` is empty unless the file breaks off."""

    model_config = ConfigDict(frozen=True)

    warning: str
    lanes: list[report.Replayed]


def replay(file: options.Trace, json: options.Json = False) -> int:
    """Print a recorded run: its text, a summary and the metrics.

    Of a file that was cut short, everything before the cut is printed, and a warning says so.
    """
    recording = files.read(file)
    lanes = report.lanes(recording.events)
    if json:
        print(report.as_json(Replay(warning=recording.warning, lanes=[lane.replayed() for lane in lanes])))
    else:
        for number, lane in enumerate(lanes):
            print("\n" if number else "", end="")
            _show(lane)
    if recording.warning:
        terminal.print_note(recording.warning)
    return ExitCode.OK


def _show(lane: report.Lane) -> None:
    """One lane for a person."""
    metrics = lane.decoded().metrics
    ended = f"ended by {lane.end.reason}" if lane.end else "breaks off"
    head = f"[{lane.start.lane}] {report.origin(lane.start)}"
    text = lane.start.prompt + lane.given + lane.text
    print(report.printable("\n".join([head, "", text, "", f"{report.summary(metrics)}; {ended}"])))
    rows = report.metric_rows(metrics, lane.solo_seconds)
    terminal.show(terminal.Table(("metric", "value"), rows))
