"""`draftscope rounds FILE`: what the log of an engine says about its rounds, and what it does not. Imports no torch."""

from __future__ import annotations

import json as codec
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from draftscope.base.errors import DraftscopeError, write_text
from draftscope.log.entries import RoundsRead
from draftscope.log.profile import profile as make_profile
from draftscope.log.read import read
from draftscope.log.summary import RoundsSummary, summarize
from draftscope.log.table import refuse_ending, write_rounds
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.doors.servers.rounds import over_time

FILE = "a log of rounds, a server's log, /metrics page or answers, a trace, or specspecs' folder"
TO = "write the rounds to a file that ends in .jsonl (a log of rounds), .csv or .parquet"
PROFILE = "write acceptance as speculation_profile.json, which Dynamo and vLLM read"

File = Annotated[Path, typer.Argument(metavar="FILE", help=FILE)]
To = Annotated[Path | None, options.make_option(TO, "FILE", options.OUTPUT)]
Profile = Annotated[Path | None, options.make_option(PROFILE, "FILE", options.OUTPUT)]


def rounds(file: File, to: To = None, profile: Profile = None, json: options.Json = False) -> int:
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
    said = "; ".join(f"{name} {value}" for name, value in log.facts if name != "created")
    terminal.say(f"This is {log.source}{f': {said}' if said else ''}.")
    print()
    terminal.show(terminal.Table(("", "value"), counted(summary), frozenset({1})))
    if summary.positions:
        head = ("position", "kept", "of all rounds", "where all before were kept")
        print()
        terminal.show(terminal.Table(head, by_position(summary), frozenset(range(4)), "Acceptance by position"))
    over_time.show(log)
    if summary.unknown:
        print(f"\nThis log does not say {_list(summary.unknown)}.")
    for note in log.notes:
        terminal.print_note(note)


def counted(summary: RoundsSummary) -> list[tuple[str, str]]:
    """A row for each number that the log knows."""
    lengths = None if summary.lengths is None else " to ".join(dict.fromkeys(map("{:.2f}".format, summary.lengths)))
    rows = {
        "requests": number(summary.requests),
        "rounds with a draft": number(summary.rounds),
        "drafted tokens": number(summary.drafted),
        "kept": number(summary.accepted),
        "tokens written": number(summary.emitted),
        "tokens a round, with the target's own": decimals(summary.tokens_per_round),
        "the same, each request alike": decimals(summary.tokens_per_round_by_request),
        "tokens a round, as the engine says": lengths,
        "kept of the drafted tokens": share(summary.acceptance_rate),
        "seconds of all rounds": decimals(summary.seconds),
        "tokens/s, one round after the other": decimals(summary.tokens_per_s),
    }
    return [(name, value) for name, value in rows.items() if value is not None]


def by_position(summary: RoundsSummary) -> list[tuple[str, str, str, str]]:
    """A row for each place of a draft."""
    return [
        (str(each.position), number(each.kept) or "", share(each.share) or "", share(each.conditional) or "-")
        for each in summary.positions or ()
    ]


def number(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def decimals(value: float | None) -> str | None:
    return None if value is None else f"{value:,.2f}"


def share(value: float | None) -> str | None:
    return None if value is None else f"{value:.1%}"


def _list(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
