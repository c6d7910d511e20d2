"""The lessons' recorded runs: which are there, and their events. What is told on them stands in assets/instrument."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from draftscope import tracefile
from draftscope.assets import assets
from draftscope.errors import DraftscopeError
from draftscope.glossary import GLOSSARY
from draftscope.trace import AnyEvent
from draftscope_app.feed import delta, note
from draftscope_app.visitors import new_run_id

SUFFIX = ".jsonl.gz"


def names() -> list[str]:
    """The recorded runs, as the lessons name them."""
    return sorted(path.name.removesuffix(SUFFIX) for path in _folder().glob(f"*{SUFFIX}"))


def meanings() -> dict[str, str]:
    """Metric -> what it is, for terms that lessons explain."""
    return {entry.name: entry.meaning for entry in GLOSSARY}


def events(name: str) -> tuple[AnyEvent, ...]:
    """The run of that name."""
    if name not in names():
        raise DraftscopeError(f"There is no lesson recorded as {name[:40]!r}; reload the page.")
    return tracefile.read(_folder() / f"{name}{SUFFIX}").events


def told(name: str) -> str:
    """The run as one delta, or one sentence."""
    try:
        return as_delta(name, events(name))
    except DraftscopeError as error:
        return note(str(error))


def as_delta(name: str, run: Iterable[AnyEvent]) -> str:
    """A lesson's run as the page hears it."""
    return delta(0, new_run_id(), map(tracefile.line, run), lesson=name)


def _folder() -> Path:
    return assets() / "lessons"
