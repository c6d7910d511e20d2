"""Where the counts come from: a log that grows, or a server's own counters. Each is asked when Prometheus asks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from draftscope.base.errors import DraftscopeError, reason
from draftscope.log.alarm import RecentAcceptance
from draftscope.log.counters import read_counters
from draftscope.log.entries import LoggedRound, Tally, tally
from draftscope.log.read import MAX_LINE, LineReader
from draftscope.servers.wire import Wire, WireLimits

PIECE = 1 << 24  # bytes of a log that are read at once
LIMITS = WireLimits(connect=2.0, silent=5.0, total=5.0, answer=1 << 24)


@dataclass
class Counts:
    """What is known at one moment. `problem` is a sentence where the source cannot be read now."""

    whole: Tally | None = None  # since the source began; None: nothing was said about speculation yet
    recent: RecentAcceptance = field(default_factory=RecentAcceptance)
    length: float | None = None  # tokens a round, as an engine says it that does not say of how many rounds
    rate: float | None = None
    unreadable: int = 0  # lines of a log that cannot be
    problem: str = ""

    def add(self, part: Tally) -> None:
        """Takes in rounds that came since."""
        if part.rounds is None and part.drafted is None:  # means alone
            self.length, self.rate = part.length, part.rate
            return
        self.whole = part if self.whole is None else self.whole + part
        self.recent.add(part)


class Source(Protocol):
    """Counts that grow."""

    def read(self) -> Counts:
        """What is known now. Never raises: what is wrong is said in `problem`."""
        ...


class LogSource:
    """A file that an engine adds lines to. One that was cut short, or replaced, is read from its beginning, and added
    to what was counted before: counters never fall while the exporter runs."""

    def __init__(self, path: Path) -> None:
        self._path, self._counts = path, Counts()
        self._file: tuple[int, int] | None = None  # device, inode
        self._at = self._line = 0
        self._rest = b""
        self._reader = LineReader()

    def read(self) -> Counts:
        self._counts.problem = ""
        try:
            with self._path.open("rb") as log:
                self._place(os.fstat(log.fileno()))
                log.seek(self._at)
                while piece := log.read(PIECE):
                    self._at += len(piece)
                    self._take(piece)
        except OSError as error:
            self._counts.problem = f"The log {self._path} cannot be read: {reason(error)}."
        return self._counts

    def _place(self, status: os.stat_result) -> None:
        file = (status.st_dev, status.st_ino)
        if file != self._file or status.st_size < self._at:
            self._file, self._at, self._line, self._rest, self._reader = file, 0, 0, b"", LineReader()

    def _take(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._rest = self._rest if len(self._rest) <= MAX_LINE else b""
        rounds: list[LoggedRound] = []
        for line in lines:
            for entry in self._entries(line):
                rounds.append(entry) if isinstance(entry, LoggedRound) else self._counts.add(entry)
        if rounds:
            self._counts.add(tally(rounds))

    def _entries(self, line: bytes) -> list[LoggedRound | Tally]:
        self._line += 1
        try:
            return self._reader.read(line.decode("utf-8", "replace"), self._line) if len(line) <= MAX_LINE else []
        except DraftscopeError as error:
            self._counts.unreadable += 1
            self._counts.problem = str(error)
            return []


class ServerSource:
    """The `/metrics` page of vLLM, llama.cpp or SGLang, under one set of names."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/").removesuffix("/metrics")
        self._wire, self._counts = Wire(self._url, LIMITS), Counts()

    def read(self) -> Counts:
        before, self._counts.problem = self._counts.whole, ""
        try:
            now = self._asked()
        except DraftscopeError as error:
            self._counts.problem = str(error)
            return self._counts
        self._counts.length, self._counts.rate = now.length, now.rate
        if now.rounds is not None or now.drafted is not None:
            self._counts.whole = now
            self._counts.recent.add(now if before is None else _since(before, now))
        return self._counts

    def _asked(self) -> Tally:
        body = self._wire.text("/metrics")
        if body is None:
            raise DraftscopeError(
                f"{self._url} has no /metrics; start llama.cpp with --metrics, SGLang with --enable-metrics."
            )
        read = read_counters(body.decode("utf-8", "replace"))
        if read is None:
            raise DraftscopeError(f"{self._url}/metrics counts no speculation; start the server with a drafter.")
        return read.tallies[0]


def _since(before: Tally, now: Tally) -> Tally:
    """What came between; everything, where the server was started anew."""
    values = [(getattr(before, name), getattr(now, name)) for name in ("rounds", "drafted", "accepted")]
    if any(new is not None and old is not None and new < old for old, new in values):
        return now
    rounds, drafted, accepted = (None if new is None else new - (old or 0) for old, new in values)
    return Tally(rounds=rounds, drafted=drafted, accepted=accepted)
