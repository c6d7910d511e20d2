"""Trace files: one JSON object a line, gzipped if the name ends in .gz. Imports no torch.

Anybody can make such a file, and a megabyte of zeros fits into a kilobyte of gzip. So a reader bounds what it unpacks,
the length of a line, the lines without content and the events; JSON is parsed by pydantic, whose parser bounds the
nesting and the digits of a number.
"""

from __future__ import annotations

import gzip
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from pydantic_core import from_json, to_json

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.trace.events import EVENT, SCHEMA_VERSION, AnyEvent
from draftscope.trace.validate import ImpossibleError, Validator

MIB = 2**20
MAX_BYTES = 512 * MIB  # unpacked; a run of a few thousand tokens takes a few megabytes
MAX_LINE = 16 * MIB  # a round that verifies 256 nodes takes less than one
MAX_VALUES = 500_000  # in a line; that round has less than a third of them. Parsing more would hold up other threads
MAX_BLANK = 1000  # lines
LATER = (  # kinds that no trace begins with
    "prefill", "round", "run_end", "solo_runs", "verify_costs", "parted", "burst", "served", "forced", "drafted",
)  # fmt: skip
MAX_EVENTS = 500_000  # a round takes about a kilobyte or more


@dataclass(frozen=True)
class Recording:
    """The contents of a file. `warning` is empty or says in one sentence what is missing."""

    events: tuple[AnyEvent, ...]
    warning: str = ""


def write(path: str | Path, events: Iterable[AnyEvent]) -> None:
    """Writes each event at once as a whole line, so that an interrupted run leaves a readable file.

    Raises `DraftscopeError` if the file cannot be opened or written.
    """
    for _ in write_through(path, events):
        pass


def write_through(path: str | Path, events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    """Passes events on and writes them. A full disk ends the file, not the events: `DraftscopeError` comes after the
    last of them. If the file cannot be opened, it comes before the first."""
    path = Path(path)
    file, failed = _opened(path), ""
    try:
        for event in events:
            if not failed:
                failed = _failure(partial(print, line(event), file=file, flush=True))
            yield event
    finally:
        failed = failed or _failure(file.close)
        with suppress(OSError):
            file.close()  # a second time: the first may have failed before it closed anything
    if failed:
        raise _unwritable(path, failed)


def _failure(act: Callable[[], object]) -> str:
    """Why the disk did not take something; empty if it did."""
    try:
        act()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _opened(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return gzip.open(path, "wt", encoding="utf-8") if path.suffix == ".gz" else path.open("w", encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error.strerror) from None


def _unwritable(path: Path, reason: str | None) -> DraftscopeError:
    return DraftscopeError(f"The trace '{path}' cannot be written ({reason}); choose another file.")


def line(event: AnyEvent) -> str:
    """One event as one line of JSON, without absent fields."""
    return event.model_dump_json(exclude_none=True)


def read(path: str | Path, max_bytes: int = MAX_BYTES) -> Recording:
    """Reads a trace. Of a truncated file, the whole events are returned with a warning.

    Raises `DraftscopeError` for a file that is not a trace, is of an unknown schema version, tells an impossible
    history (see `validate`), or is too large: more than `max_bytes` when unpacked, or a part of it beyond its bound.
    """
    path = Path(path)
    events: list[AnyEvent] = []
    validator = Validator()
    for text in _lines(path, max_bytes):
        if text is None:
            return _shortened(path, events)
        if len(events) == MAX_EVENTS:
            raise DraftscopeError(f"'{path.name}' has more than {MAX_EVENTS:,} events; record a shorter run.")
        try:
            if not events:
                _check_start(path, text)
            events.append(EVENT.validate_python(_parse(text)))
            validator.add(events[-1])
        except ImpossibleError as error:
            raise DraftscopeError(f"'{path.name}' cannot be right: {error}; record the run again.") from None
        except ValueError:  # no JSON, or not an event
            if not events:
                raise _foreign(path) from None
            return _shortened(path, events)
    if not events:
        raise DraftscopeError(f"'{path.name}' is empty; save a run of the page or of 'draftscope decode --trace FILE'.")
    return Recording(tuple(events))


def _check_start(path: Path, first: bytes) -> None:
    """Refuses a trace of another schema version, or whose first lines are missing. ValueError if it is no JSON."""
    start = _parse(first)
    if not isinstance(start, dict):
        return
    version = start.get("schema_version", SCHEMA_VERSION)
    if type(version) is not int:  # True is an int as well
        raise DraftscopeError(
            f"'{path.name}' gives its trace version as {quoted(to_json(version).decode())}, which is no whole number; "
            "record the run again."
        )
    if version != SCHEMA_VERSION:
        raise DraftscopeError(
            f"'{path.name}' was written in trace version {quoted(version)}, and this Draftscope reads version "
            f"{SCHEMA_VERSION}; open it with the Draftscope that wrote it, or record the run again."
        )
    if start.get("kind") in LATER:
        raise DraftscopeError(f"'{path.name}' does not begin with the start of a run; its first lines are missing.")


def _parse(text: bytes) -> Any:
    """What a line of JSON holds. ValueError if it is none. (`validate_json` takes minutes over a million fields.)"""
    return from_json(text, cache_strings="keys")


def _lines(path: Path, max_bytes: int) -> Iterator[bytes | None]:
    """The lines of a plain or gzipped file; None where the data ends early or is damaged."""
    try:
        with _unpacked(path, max_bytes) as file:
            blank = total = 0
            while text := file.readline(min(MAX_LINE, max_bytes - total) + 1):  # a line may have no end
                total += len(text)
                if total > max_bytes:
                    raise DraftscopeError(
                        f"'{path.name}' is larger than {max_bytes // MIB} MiB unpacked; record a shorter run."
                    )
                _refuse_huge(path, text)
                if not text.isspace():
                    yield text
                elif (blank := blank + 1) > MAX_BLANK:
                    raise DraftscopeError(
                        f"'{path.name}' has more than {MAX_BLANK:,} empty lines, which no run writes; "
                        "record the run again."
                    )
    except (EOFError, zlib.error, gzip.BadGzipFile):
        yield None
    except OSError as error:
        raise DraftscopeError(f"The trace '{path}' cannot be read ({error.strerror}); check the name.") from None


def _refuse_huge(path: Path, line: bytes) -> None:
    """Raises `DraftscopeError` for a line that no run writes, before it is parsed."""
    if len(line) > MAX_LINE:
        what = f"a line of more than {MAX_LINE // MIB} MiB"
    elif sum(map(line.count, (b",", b"[", b"{"))) > MAX_VALUES:
        what = f"a line of more than {MAX_VALUES:,} values"
    else:
        return
    raise DraftscopeError(f"'{path.name}' has {what}, which no run writes; record the run again.")


def _unpacked(path: Path, max_bytes: int) -> IO[bytes]:
    """The open file. Raises OSError, or `DraftscopeError` for one that is too large or is a pipe or a device."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):  # a pipe may never have an end
        raise DraftscopeError(f"'{path}' is not a regular file; save the trace to a file first.")
    if status.st_size > max_bytes:
        raise DraftscopeError(f"'{path.name}' is larger than {max_bytes // MIB} MiB; record a shorter run.")
    with path.open("rb") as probe:
        zipped = probe.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path, "rb")) if zipped else path.open("rb")


def _shortened(path: Path, events: list[AnyEvent]) -> Recording:
    if not events:
        raise _foreign(path)
    return Recording(tuple(events), f"'{path.name}' breaks off after {len(events)} events; only those can be shown.")


def _foreign(path: Path) -> DraftscopeError:
    return DraftscopeError(
        f"'{path.name}' is not a Draftscope trace; save a run of the page or of 'draftscope decode --trace FILE'."
    )
