"""Trace files: one JSON object a line, gzipped if the name ends in .gz. Imports no torch."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from draftscope.base.errors import DraftscopeError
from draftscope.trace.events import EVENT, SCHEMA_VERSION, AnyEvent
from draftscope.trace.upgrade import OLDEST, upgraded
from draftscope.trace.validate import ImpossibleError, Validator

MAX_BYTES = 512 * 1024 * 1024  # a run of a few thousand tokens takes a few megabytes


@dataclass(frozen=True)
class Recording:
    """The contents of a file. `warning` is empty or says in one sentence what is missing."""

    events: tuple[AnyEvent, ...]
    warning: str = ""


def write(path: str | Path, events: Iterable[AnyEvent]) -> None:
    """Writes each event at once as a whole line, so that an interrupted run leaves a readable file."""
    path = Path(path)
    with _opened(path) as file:
        for event in events:
            try:
                file.write(line(event) + "\n")
                file.flush()
            except OSError as error:
                raise _unwritable(path, error) from None


def _opened(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return gzip.open(path, "wt", encoding="utf-8") if path.suffix == ".gz" else path.open("w", encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> DraftscopeError:
    return DraftscopeError(f"'{path}' cannot be written ({error.strerror}); choose another file.")


def line(event: AnyEvent) -> str:
    """One event as one line of JSON, without absent fields."""
    return event.model_dump_json(exclude_none=True)


def read(path: str | Path, most_bytes: int = MAX_BYTES) -> Recording:
    """Reads a trace. Of a truncated file, the whole events are returned with a warning.

    Raises `DraftscopeError` for a file that is not a trace, is of an unknown schema version, tells an impossible
    history (see `validate`), or has more than `most_bytes` when unpacked.
    """
    path = Path(path)
    events: list[AnyEvent] = []
    version, validator = SCHEMA_VERSION, Validator()
    for text in _lines(path, most_bytes):
        if text is None:
            return _shortened(path, events)
        try:
            if not events:
                version = _version(path, text)
            events.append(_event(text, version))
            validator.add(events[-1])
        except ImpossibleError as error:
            raise DraftscopeError(f"'{path.name}' cannot be right: {error}; record the run again.") from None
        except (ValidationError, json.JSONDecodeError):
            if not events:
                raise _foreign(path) from None
            return _shortened(path, events)
    if not events:
        raise DraftscopeError(f"'{path.name}' is empty; record a trace with 'draftscope decode --trace FILE'.")
    return Recording(tuple(events))


def _version(path: Path, first: str) -> int:
    """The schema version in the first line; the present one if it has none."""
    start = json.loads(first)
    version = start.get("schema_version") if isinstance(start, dict) else None
    if isinstance(version, int) and not OLDEST <= version <= SCHEMA_VERSION:
        raise DraftscopeError(
            f"'{path.name}' was written in trace version {version}, and this Draftscope reads {OLDEST} to "
            f"{SCHEMA_VERSION}; open it with the Draftscope that wrote it, or record the run again."
        )
    if isinstance(start, dict) and start.get("kind") in ("prefill", "round", "run_end", "solo_runs", "verify_costs"):
        raise DraftscopeError(f"'{path.name}' does not begin with the start of a run; its first lines are missing.")
    return version if isinstance(version, int) else SCHEMA_VERSION


def _event(text: str, version: int) -> AnyEvent:
    """One validated event. Raises ValidationError or JSONDecodeError."""
    if version == SCHEMA_VERSION:
        return EVENT.validate_json(text)
    old = json.loads(text)
    try:
        return EVENT.validate_python(upgraded(old, version))
    except (KeyError, TypeError, AttributeError):  # not shaped like an event of its version
        return EVENT.validate_python(old)


def _lines(path: Path, most_bytes: int) -> Iterator[str | None]:
    """The lines of a plain or gzipped file; None where the data ends early or is damaged."""
    try:
        if path.stat().st_size > most_bytes:
            raise DraftscopeError(f"'{path.name}' is larger than {most_bytes // 2**20} MiB; record a shorter run.")
        with path.open("rb") as probe:
            zipped = probe.read(2) == b"\x1f\x8b"
        total = 0
        with gzip.open(path, "rt", encoding="utf-8") if zipped else path.open(encoding="utf-8") as file:
            while text := file.readline(most_bytes - total + 1):  # a line without end must not fill the memory
                total += len(text)
                if total > most_bytes:
                    raise DraftscopeError(
                        f"'{path.name}' is larger than {most_bytes // 2**20} MiB unpacked; record a shorter run."
                    )
                if text.strip():
                    yield text
    except (EOFError, zlib.error, UnicodeDecodeError, gzip.BadGzipFile):
        yield None
    except OSError as error:
        raise DraftscopeError(f"The trace '{path}' cannot be read ({error.strerror}); check the name.") from None


def _shortened(path: Path, events: list[AnyEvent]) -> Recording:
    if not events:
        raise _foreign(path)
    return Recording(tuple(events), f"'{path.name}' breaks off after {len(events)} events; only those can be shown.")


def _foreign(path: Path) -> DraftscopeError:
    return DraftscopeError(
        f"'{path.name}' is not a Draftscope trace; record one with 'draftscope decode --trace FILE'."
    )
