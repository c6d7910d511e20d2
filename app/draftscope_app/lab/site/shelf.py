"""The recordings that a site has: read from their files, and listed for whoever chooses among them."""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.trace import files
from draftscope.trace.events import EVENT, AnyEvent, RunStart
from draftscope.trace.files import line
from draftscope_app.lab.site.texts import SUFFIX, TEXTS, RecordedText

RECORD, BUILD = "draftscope site record", "draftscope site build"
FIRST = assets() / "traces" / "first.jsonl.gz"


@dataclass(frozen=True)
class RecordedRun:
    """One race. Its `name` is that of its file and its word in the address."""

    name: str
    prompt: str
    target: str
    drafter: str
    title: str
    temperature: float
    events: tuple[AnyEvent, ...]

    @property
    def text(self) -> str:
        """All events, as the instrument is given them."""
        return ",".join(map(line, self.events))

    def listed(self) -> dict[str, object]:
        """What a reader chooses by."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "events"}


def missing(folder: Path) -> list[RecordedText]:
    """The texts of which the folder has no recordings."""
    return [text for text in TEXTS if not (folder / f"{text.name}{SUFFIX}").is_file()]


def missing_words(folder: Path) -> str:
    """Which texts are missing and what records them, as a sentence; empty where none is."""
    names = ", ".join(text.name for text in missing(folder))
    return names and f"no runs of the texts {names} are recorded; '{RECORD}', or --quick with '{BUILD}', records them."


def read(folder: Path) -> list[RecordedRun]:
    """The run that the page opens with, then those of the folder. Raises `DraftscopeError` for what is no recording."""
    first = [run_of("first", files.read(FIRST).events)] if FIRST.exists() else []
    paths = [folder / f"{text.name}{SUFFIX}" for text in TEXTS]
    return first + [run for path in paths if path.is_file() for run in _runs(path)]


def _runs(path: Path) -> Iterator[RecordedRun]:
    try:
        lines = lzma.decompress(path.read_bytes()).split(b"\n")  # what a token wrote may hold other breaks
        events = [EVENT.validate_json(text) for text in lines if text]
    except (OSError, ValueError, lzma.LZMAError):
        raise DraftscopeError(
            f"'{path}' holds no recordings; remove it, and run: draftscope site record {path.parent}"
        ) from None
    for name, run in groupby(events, key=lambda event: event.run):
        yield run_of(name, list(run))


def run_of(name: str, events: Sequence[AnyEvent]) -> RecordedRun:
    """What is said of a race is taken from its drafting lane."""
    starts = [event for event in events if isinstance(event, RunStart)]
    start = next((start for start in starts if start.drafter != "plain"), starts[0])
    target = next((model.name for model in start.models if model.role == "target"), "")
    temperature = float(str(start.settings.get("temperature", 0.0)))
    return RecordedRun(
        name, start.prompt, target, start.drafter, start.title or start.drafter, temperature, tuple(events)
    )
