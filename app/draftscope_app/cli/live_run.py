"""A run on a terminal while it is decoded, and its summary behind it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import Steps, said, stoppable
from draftscope.trace.result import Result
from draftscope.trace.unhelpful import unhelpful
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.terminal import interruptible
from draftscope_app.reports import run_report

if TYPE_CHECKING:
    from draftscope.trace.events import AnyEvent

Show = Callable[["AnyEvent"], None]
TRACE = "record the run; compressed where FILE ends in .gz"
Trace = Annotated[Path | None, command_options.make_option(TRACE, "FILE", command_options.OUTPUT)]


def follow(
    steps: Steps[AnyEvent | None, object], show: Show, trace: Path | None
) -> tuple[list[AnyEvent], DraftscopeError | None]:
    """All events of a run, shown and written as they come, and why the trace was not written whole, if so: the run is
    not lost with it. Ctrl-C ends the run within a round and its trace whole."""
    from draftscope.trace import files

    events: list[AnyEvent] = []
    lost: DraftscopeError | None = None
    with interruptible() as interrupted:
        coming: Iterator[AnyEvent] = said(stoppable(steps, interrupted))
        try:
            for event in coming if trace is None else files.write_through(trace, coming):
                events.append(event)
                show(event)
        except DraftscopeError as error:
            if trace is None or not events or events[-1].kind != "run_end":
                raise
            lost = error
        if interrupted():
            raise KeyboardInterrupt
    return events, lost


def print_round(event: AnyEvent) -> None:
    """The text that a round brings, and a line's end at the end of the run."""
    if event.kind == "round":
        print(run_report.printable(event.text_delta), end="", flush=True)
    elif event.kind == "run_end":
        print(flush=True)


def print_result(events: list[AnyEvent], json: bool, lost: DraftscopeError | None) -> int:
    """The whole run as one JSON object, or a line about it on stderr. Raises what was `lost`."""
    run = Result(tuple(events))
    done = run_report.decoded(run)
    if json:
        print(run_report.as_json(done))
    else:
        print(run_report.summary(done.metrics), file=sys.stderr)
    if sentence := unhelpful(run.start, run.round_events):
        terminal.print_note(sentence)
    if lost is not None:
        raise lost
    return ExitCode.OK
