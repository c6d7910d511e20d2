"""What the programs of this room that run by `python -m` share: a report that is printed and, on request, saved."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from draftscope.base.errors import DraftscopeError

WRONG_INPUT = 2  # exit status


def run(parser: argparse.ArgumentParser, report: Callable[[argparse.Namespace], str]) -> None:
    """Prints the Markdown that `report` makes from the command line; `--save` also writes it to a file.

    A `DraftscopeError` ends the program with its sentence.
    """
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write the report to this Markdown file")
    given = parser.parse_args()
    try:
        text = report(given)
    except DraftscopeError as error:
        parser.exit(WRONG_INPUT, f"{error}\n")
    print(text)
    if given.save is not None:
        given.save.write_text(text + "\n", encoding="utf-8")
