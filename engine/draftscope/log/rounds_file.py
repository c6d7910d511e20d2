"""Rounds as a file: a log of rounds in the own format, or a table."""

from __future__ import annotations

from pathlib import Path

from draftscope.base.errors import DraftscopeError, one_sentence
from draftscope.log.entries import LoggedRound, RoundsRead
from draftscope.log.writer import RoundLog
from draftscope.trace import tables

LOG = ".jsonl"


def refuse_ending(path: Path) -> None:
    """Raises `DraftscopeError` for a file name that says no format, or one that needs another package."""
    if path.suffix != LOG:
        tables.refuse_format(path)


def write_rounds(log: RoundsRead, path: Path) -> None:
    """Writes the rounds, an older file anew. Raises `DraftscopeError` where the log has no single rounds."""
    if not log.rounds:
        raise DraftscopeError(f"{log.source} has no single rounds, only what several come to; --json prints that.")
    if path.suffix != LOG:
        import pandas as pd

        rows = [item.model_dump() for item in log.rounds]
        tables.write(pd.DataFrame(rows, columns=list(LoggedRound.model_fields)), path)
        return
    with one_sentence(f"'{path}' cannot be written", "choose another file"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with RoundLog(path, **{name: value for name, value in log.facts if name != "created"}) as made:
            for item in log.rounds:
                made.round(**item.model_dump(exclude_none=True, exclude={"round"}))
