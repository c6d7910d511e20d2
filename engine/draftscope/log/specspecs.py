"""The parquet files of specspecs (github.com/jbarrow/specspecs): `drafts-*.parquet`, a row for each round.

Their viewer takes a round's first drafted token for the last one of the round before, which some engines draft again;
where that holds of every round it is no guess, and it is left out here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError, one_sentence, quoted
from draftscope.log.entries import MAX_DRAFT, LoggedRound, RoundsRead

COLUMNS = ("sequence_id", "step", "draft_tokens", "acceptance_length", "emitted_token")
MAX_BYTES = 256 << 20  # unpacked
OVERLAP = "Each round begins with the token that the one before ended with; it is not counted as drafted."


def read_specspecs(path: Path, most: int) -> RoundsRead:
    """Of a folder, or of one file of drafts. Raises `DraftscopeError` for other files, and without pyarrow."""
    if find_spec("pyarrow") is None:
        raise DraftscopeError("Parquet needs pyarrow; install it with: pip install 'draftscope[export]'")
    files = sorted(path.glob("drafts-*.parquet")) if path.is_dir() else [path]
    if not files:
        raise DraftscopeError(f"'{path}' has no file 'drafts-*.parquet'; name a folder that specspecs wrote.")
    rows: list[Mapping[str, Any]] = []
    for file in files:
        rows += _rows(file, COLUMNS, most - len(rows))
    lengths = {row["sequence_id"]: row["prompt_len"] for row in _prompts(path, most)}
    rows.sort(key=lambda row: (str(row["sequence_id"]), row["step"]))
    overlap = _overlaps(rows)
    rounds = tuple(_rounds(rows, lengths, overlap))
    return RoundsRead("specspecs", rounds, notes=(OVERLAP,) if overlap else ())


def _prompts(path: Path, most: int) -> Iterator[Mapping[str, Any]]:
    for file in sorted(path.glob("sequences-*.parquet")) if path.is_dir() else []:
        yield from _rows(file, ("sequence_id", "prompt_len"), most)


def _rows(file: Path, columns: tuple[str, ...], most: int) -> list[Mapping[str, Any]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with one_sentence(f"'{file}' cannot be read", "check the path"), ParquetFile(file) as opened:
            missing = [name for name in columns if name not in opened.schema_arrow.names]
            if missing:
                raise DraftscopeError(f"'{file.name}' has no column '{missing[0]}'; name a file that specspecs wrote.")
            groups = opened.metadata
            size = sum(groups.row_group(number).total_byte_size for number in range(groups.num_row_groups))
            if groups.num_rows > most or size > MAX_BYTES:
                raise DraftscopeError(f"'{file.name}' has {groups.num_rows:,} rounds, too many to read; give fewer.")
            outcome: list[Mapping[str, Any]] = opened.read(columns=list(columns)).to_pylist()
            return outcome
    except ArrowException as error:
        raise DraftscopeError(f"'{file.name}' is no parquet file ({quoted(str(error))}); check it.") from None


def _overlaps(rows: list[Mapping[str, Any]]) -> bool:
    """Whether every round but the first of its text begins with the token that the one before ended with."""
    pairs = [
        (before["emitted_token"], (row["draft_tokens"] or [None])[0], row["acceptance_length"])
        for before, row in pairwise(rows)
        if before["sequence_id"] == row["sequence_id"]
    ]
    return bool(pairs) and all(emitted == first and kept for emitted, first, kept in pairs)


def _rounds(rows: list[Mapping[str, Any]], lengths: Mapping[str, int | None], overlap: bool) -> Iterator[LoggedRound]:
    number, before, written = 0, None, 0
    for row in rows:
        number, written = (number + 1, written) if row["sequence_id"] == before else (0, 0)
        before = row["sequence_id"]
        skipped = int(overlap and number > 0)
        draft = tuple(row["draft_tokens"] or ())[skipped : MAX_DRAFT + skipped]
        accepted = (row["acceptance_length"] or 0) - skipped
        length = lengths.get(before)
        position = None if length is None else length + written
        try:
            tokens = (*draft[:accepted], row["emitted_token"])
            logged = LoggedRound(
                request=str(before), round=number, drafted=len(draft), accepted=accepted, draft=draft, tokens=tokens,
                position=position,
            )  # fmt: skip
        except ValueError:
            raise DraftscopeError(
                f"Step {row['step']} of '{quoted(str(before))}' cannot be; record it again."
            ) from None
        yield logged
        written += logged.added
