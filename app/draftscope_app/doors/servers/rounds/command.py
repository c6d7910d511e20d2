"""`draftscope rounds FILE`: what the log of an engine says about its rounds, and what it does not. Imports no torch."""

from __future__ import annotations

import json as codec
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from draftscope.base.errors import DraftscopeError, write_text
from draftscope.log.entries import RoundsRead
from draftscope.log.log_summary import RoundsSummary, summarize
from draftscope.log.profile import profile as make_profile
from draftscope.log.read import read
from draftscope.log.rounds_file import refuse_ending, write_rounds
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.doors.servers.rounds import printed_over_time
from draftscope_app.doors.servers.rounds.shown import POSITIONS, by_position, counted, said_of, unknown

FILE = "a log of rounds, a server's log, /metrics page or answers, a trace, or specspecs' folder"
TO = "write the rounds to a file that ends in .jsonl (a log of rounds), .csv or .parquet"
PROFILE = "write acceptance as speculation_profile.json, which Dynamo and vLLM read"

File = Annotated[Path, typer.Argument(metavar="FILE", help=FILE)]
To = Annotated[Path | None, command_options.make_option(TO, "FILE", command_options.OUTPUT)]
Profile = Annotated[Path | None, command_options.make_option(PROFILE, "FILE", command_options.OUTPUT)]


def rounds(file: File, to: To = None, profile: Profile = None, json: command_options.Json = False) -> int:
    """Read the log of any engine: tokens a round, acceptance by position, times.

    Which of the formats it is shows in the file itself. What a log does not say is named, not estimated. An engine
    writes such a log with draftscope.log.RoundLog, one file without dependencies.
    """
    if to is not None:
        refuse_ending(to)
    if to is not None and file.exists() and to.exists() and file.samefile(to):
        raise DraftscopeError(f"--to {to} is the log itself, which would be lost; choose another file.")
    log = read(file)
    summary = summarize(log)
    if profile is not None:
        write_text(profile, codec.dumps(make_profile(log, summary), indent=2) + "\n")
    if to is not None:
        write_rounds(log, to)
    if json:
        print(codec.dumps({"source": log.source, "facts": dict(log.facts), **asdict(summary), "notes": log.notes}))
    else:
        _print(log, summary)
    return ExitCode.OK


def _print(log: RoundsRead, summary: RoundsSummary) -> None:
    terminal.say(said_of(log))
    print()
    terminal.show(terminal.Table(("", "value"), counted(summary), frozenset({1})))
    if summary.positions:
        print()
        terminal.show(terminal.Table(POSITIONS, by_position(summary), frozenset(range(4)), "Acceptance by position"))
    printed_over_time.show(log)
    if summary.unknown:
        print(f"\n{unknown(summary)}")
    for note in log.notes:
        terminal.print_note(note)
