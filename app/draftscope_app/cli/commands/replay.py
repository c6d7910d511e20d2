"""`draftscope replay FILE`: a recorded run's text, summary and metrics. Loads no model and never imports torch."""

from __future__ import annotations

import argparse
import sys

from pydantic import BaseModel, ConfigDict

from draftscope.trace import files
from draftscope_app.reports import lanes as report


class Replay(BaseModel):
    """The contract of `draftscope replay --json`. `warning` is empty unless the file breaks off."""

    model_config = ConfigDict(frozen=True)

    warning: str
    lanes: list[report.Replayed]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a trace, as 'draftscope decode --trace FILE' writes it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """What is whole of a truncated file is shown, and a warning says so."""
    recording = files.read(args.file)
    lanes = report.lanes(recording.events)
    if args.json:
        print(report.as_json(Replay(warning=recording.warning, lanes=[lane.replayed() for lane in lanes])))
    else:
        print("\n\n".join(_told(lane) for lane in lanes))
    if recording.warning:
        print(f"draftscope: {recording.warning}", file=sys.stderr)
    return 0


def _told(lane: report.Lane) -> str:
    """One lane for a person."""
    metrics = lane.decoded().metrics
    ended = f"ended by {lane.end.reason}" if lane.end else "breaks off"
    head = f"[{lane.start.lane}] {report.origin(lane.start)}"
    about = [f"{report.summary(metrics)}; {ended}", *report.table(metrics, lane.solo_seconds)]
    return report.printable("\n".join([head, "", lane.start.prompt + lane.given + lane.text, "", *about]))
