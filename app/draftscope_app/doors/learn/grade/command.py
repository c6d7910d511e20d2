"""`draftscope grade FILE.py`: a student's own rules, judged by exact enumeration. Imports no torch, loads no model."""

from __future__ import annotations

import json as codec
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from draftscope.base.errors import DraftscopeError
from draftscope.grade.exercise import Verdict
from draftscope.grade.grade import EXERCISES, Graded
from draftscope.grade.grade import grade as graded
from draftscope.grade.starters import write_starters
from draftscope.grade.student_limits import held_words
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode

NAMES = ", ".join(exercise.name for exercise in EXERCISES)
ASKED = "What is asked"

File = Annotated[Path | None, typer.Argument(metavar="FILE.py", help="what a student wrote")]
Wanted = Annotated[
    list[str] | None,
    command_options.make_option(f"must be in the file: {NAMES}; default: those that are", "NAME", ASKED, "--exercise"),
]
Student = Annotated[str, command_options.make_option("any text; chooses this student's own distributions", "ID", ASKED)]
Starter = Annotated[
    Path | None,
    command_options.make_option(
        "write a starter file and a notebook of each exercise, and a teacher's page", "DIR", ASKED
    ),
]


def grade(
    file: File = None,
    exercise: Wanted = None,
    student: Student = "",
    starter: Starter = None,
    json: command_options.Json = False,
) -> int:
    """Grade a student's own accept rule, residual, tree, rewind and end of text.

    The law of what a function writes is found by exact enumeration over small distributions, and a wrong one is shown
    by a counter-example; the usual mistakes are named. Needs no model and no network. The file runs in a process of its
    own. The exit code is 1 where something is wrong.

    Example: draftscope grade --starter exercises, then draftscope grade accept.py
    """
    if starter is not None:
        for path in write_starters(starter):
            terminal.say(f"wrote {path}")
        if file is None:
            return ExitCode.OK
    if file is None:
        raise DraftscopeError("A grade needs a FILE.py; 'draftscope grade --starter DIR' writes files to begin with.")
    outcome = graded(file, exercise or (), student)
    if json:
        print(codec.dumps(report(outcome)))
    else:
        _print(outcome)
    return ExitCode.OK if outcome.right else ExitCode.FAILED


def report(outcome: Graded) -> dict[str, object]:
    """What `--json` prints."""
    return {
        "right": outcome.right,
        "exercises": [asdict(verdict) for verdict in outcome.verdicts],
        "held_back": held_words(outcome.held),
    }


def _print(outcome: Graded) -> None:
    for verdict in outcome.verdicts:
        terminal.say(f"{verdict.exercise}: {'right' if verdict.right else 'wrong'}. {verdict.sentence}")
        if verdict.mistake:
            terminal.say(f"  This is the mistake '{verdict.mistake}': {about(verdict)}.")
    print(f"{sum(verdict.right for verdict in outcome.verdicts)} of {len(outcome.verdicts)} right.")
    if outcome.held and "filter" not in outcome.held:
        terminal.print_note(held_words(outcome.held))


def about(verdict: Verdict) -> str:
    """What the named mistake is."""
    return next(item for item in EXERCISES if item.name == verdict.exercise).mistakes[verdict.mistake]
