"""`draftscope export TRACE`: a recorded run as a table, or as a page that plays by itself. Never imports torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from draftscope.base.errors import DraftscopeError, write_text
from draftscope.trace import files
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode

WHAT = "tokens, rounds or decisions: a table with a row for each; page: one HTML file that plays offline"
TO = "ends in .csv, .parquet or .jsonl; a page ends in .html; default: stdout"
NAMES = ["tokens", "rounds", "decisions", "page"]

What = Annotated[str, command_options.make_option(WHAT, "NAME", command_options.OUTPUT, autocompletion=lambda: NAMES)]
To = Annotated[Path | None, command_options.make_option(TO, "FILE", command_options.OUTPUT)]


def export(trace: command_options.Trace, what: What = "tokens", to: To = None) -> int:
    """Write a recorded run as a table, or as a page that plays by itself.

    Of a file that was cut short, everything before the cut is written, and a warning says so.
    """
    from draftscope.trace import html, tables

    if to is not None:
        if what != "page":
            tables.refuse_format(to)
        elif to.suffix not in (".html", ".htm"):
            raise DraftscopeError(f"'{to}': name a file that ends in .html.")
        if trace.exists() and to.exists() and trace.samefile(to):
            raise DraftscopeError(f"--to {to} is the trace itself, which would be lost; choose another file.")
    recording = files.read(trace)
    if what == "page":
        page = html.page(recording.events)
        if len(html.first_run(recording.events)) < len(recording.events):
            terminal.print_note(f"'{trace}' holds several runs; the page plays the first.")
        if to is None:
            sys.stdout.write(page)
        else:
            write_text(to, page)
    elif to is None:
        tables.frame(recording.events, what).to_csv(sys.stdout, index=False, lineterminator="\n")
    else:
        tables.write(tables.frame(recording.events, what), to)
    if recording.warning:
        terminal.print_note(recording.warning)
    return ExitCode.OK
