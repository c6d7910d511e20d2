"""Reads a log of rounds, whoever wrote it: `read(path)`, or `read_text` of what was uploaded.

Which of the formats it is shows in the file itself. Lines that say nothing about speculation are passed over; a line of
the log's own format that cannot be is an error that names it. What is read has bounds: bytes, lines and rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from draftscope.base.errors import DraftscopeError, quoted, read_bytes
from draftscope.log.counters import read_counters
from draftscope.log.entries import LoggedRound, LogStart, RoundsRead, Tally
from draftscope.log.server_answers import found_in
from draftscope.log.specspecs import read_specspecs
from draftscope.log.trace_rounds import read_trace
from draftscope.log.words import ServerWords

MAX_LINE = 1 << 20  # characters
MAX_LINES = 2_000_000
MAX_ROUNDS = 200_000
FORMATS = (
    "a log of rounds, a trace, specspecs' parquet, a log or a /metrics page of vLLM or SGLang, or JSON of vLLM, "
    "SGLang, llama.cpp or AIPerf"
)
START = "draftscope_log"
CUT = "The last line breaks off and was left out: the log was read while it was written."


@dataclass
class LineReader:
    """Reads a log line by line, as it is written. `facts` and `source` are known once a line said so."""

    words: ServerWords = field(default_factory=ServerWords)
    source: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    answers: int = 0

    def read(self, line: str, number: int = 0) -> list[LoggedRound | Tally]:
        """The rounds and tallies in one line; empty if it has none.

        Raises `DraftscopeError` for a line of the log's own format that cannot be.
        """
        written = line.strip()
        if written.startswith("data: "):  # of an answer that was streamed
            written = written.removeprefix("data: ")
        if written.startswith("{"):
            return self._json(written, number)
        tally = self.words.read(line)
        if tally is None:
            return []
        self.source = self.source or self.words.source
        return [tally]

    def _json(self, written: str, number: int) -> list[LoggedRound | Tally]:
        try:
            value = from_json(written)
        except ValueError:
            return []
        if not isinstance(value, dict):
            return []
        if START in value or ("round" in value and "accepted" in value):
            return self._own(value, number)
        return self.answer(value)

    def _own(self, value: dict[str, Any], number: int) -> list[LoggedRound | Tally]:
        self.source = self.source or "a log of rounds"
        try:
            if START not in value:
                return [LoggedRound.model_validate(value)]
            start = LogStart.model_validate(value).model_dump(exclude={START})
        except ValidationError as error:
            raise DraftscopeError(f"Line {number} of the log cannot be: {_reason(error)}.") from None
        known = {name: quoted(str(said)) for name, said in start.items() if said not in ("", None)}
        self.facts |= dict(islice(known.items(), 20))
        return []

    def answer(self, value: Any) -> list[LoggedRound | Tally]:
        """What a JSON value of a server or a benchmark says; empty if nothing."""
        self.answers += 1
        entries: list[LoggedRound | Tally] = []
        for source, rounds, tally in found_in(value, f"answer {self.answers}"):
            self.source = self.source or source
            entries += rounds if tally is None else [tally]
        return entries


def entries(lines: Iterable[str], reader: LineReader | None = None) -> Iterator[LoggedRound | Tally]:
    """Rounds and tallies as the lines come, of a log that grows perhaps. Raises `DraftscopeError` as `read` does."""
    reader = reader or LineReader()
    for number, line in enumerate(lines, start=1):
        if number > MAX_LINES:
            raise DraftscopeError(f"The log has more than {MAX_LINES:,} lines; give a part of it.")
        if len(line) <= MAX_LINE:  # longer lines are a prompt or an answer in full
            yield from reader.read(line, number)


def read(path: str | Path) -> RoundsRead:
    """A file, or a folder that specspecs wrote. Raises `DraftscopeError` for one that says nothing about rounds."""
    path = Path(path)
    if path.is_dir() or path.suffix == ".parquet":
        return read_specspecs(path, MAX_ROUNDS)
    content = read_bytes(path, "The log")
    if content[:2] == b"\x1f\x8b" or b'"run_start"' in content[:4096]:
        return read_trace(path)
    return read_text(content.decode("utf-8", "replace"), f"'{path.name}'")


def read_text(text: str, name: str = "the text") -> RoundsRead:
    """What is in a file of text that is called `name`. Raises `DraftscopeError` as `read` does."""
    counted = read_counters(text)
    if counted is not None:
        return counted
    reader = LineReader()
    lines = text.split("\n")
    read_entries = list(islice(entries(lines, reader), MAX_ROUNDS + 1))
    if len(read_entries) > MAX_ROUNDS:
        raise DraftscopeError(f"{name} has more than {MAX_ROUNDS:,} rounds; give a part of it.")
    if not read_entries:
        read_entries = reader.answer(_document(text))
    if not read_entries:
        raise DraftscopeError(f"{name} says nothing about rounds; give {FORMATS}.")
    cut = lines[-1].startswith("{") and not lines[-1].rstrip().endswith("}")
    rounds = tuple(entry for entry in read_entries if isinstance(entry, LoggedRound))
    tallies = tuple(entry for entry in read_entries if isinstance(entry, Tally))
    return RoundsRead(reader.source, rounds, tallies, tuple(reader.facts.items()), (CUT,) if cut else ())


def _document(text: str) -> Any:
    """A JSON document of several lines; None where it is none."""
    try:
        return from_json(text) if text.lstrip()[:1] in ("{", "[") else None
    except ValueError:
        return None


def _reason(error: ValidationError) -> str:
    """The first of the errors, in words."""
    first = error.errors(include_url=False, include_context=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    place = ".".join(str(part) for part in first["loc"])
    return quoted(f"{place}: {message[:1].lower()}{message[1:]}" if place else message, 200)
