"""`draftscope export TRACE`: a recorded run as a table, or as a page that plays by itself. Never imports torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from draftscope.base.errors import DraftscopeError, write_text
from draftscope.trace import files
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode

WHAT = "tokens, rounds or decisions: a table with a row for each; page: one HTML file that plays offline"
TO = "ends in .csv, .parquet or .jsonl; a page ends in .html; default: stdout"
NAMES = ["tokens", "rounds", "decisions", "page"]

What = Annotated[str, options.make_option(WHAT, "NAME", options.OUTPUT, autocompletion=lambda: NAMES)]
To = Annotated[Path | None, options.make_option(TO, "FILE", options.OUTPUT)]


def export(trace: options.Trace, what: What = "tokens", to: To = None) -> int:
    """Write a recorded run as a table, or as a page that plays by itself.

    Of a file that was cut short, everything before the cut is written, and a warning says so.
    """
    recording = _page(trace, to) if what == "page" else _table(trace, what, to)
    if recording.warning:
        terminal.print_note(recording.warning)
    return ExitCode.OK


def _table(trace: Path, what: str, to: Path | None) -> files.Recording:
    from draftscope.trace import tables

    if to is not None:
        tables.refuse_format(to)
        _refuse_itself(trace, to)
    recording = files.read(trace)
    table = tables.frame(recording.events, what)
    if to is None:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
    else:
        tables.write(table, to)
    return recording


def _page(trace: Path, to: Path | None) -> files.Recording:
    from draftscope.trace import html as player

    if to is not None and to.suffix not in (".html", ".htm"):
        raise DraftscopeError(f"'{to}': name a file that ends in .html.")
    if to is not None:
        _refuse_itself(trace, to)
    recording = files.read(trace)
    html = player.page(recording.events)
    if len(player.first_run(recording.events)) < len(recording.events):
        terminal.print_note(f"'{trace}' holds several runs; the page plays the first.")
    if to is None:
        sys.stdout.write(html)
        return recording
    write_text(to, html)
    return recording


def _refuse_itself(trace: Path, to: Path) -> None:
    if trace.exists() and to.exists() and trace.samefile(to):
        raise DraftscopeError(f"--to {to} is the trace itself, which would be lost; choose another file.")
