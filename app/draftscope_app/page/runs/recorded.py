"""The recorded runs that come with the project: which there are, and what they hold."""

from __future__ import annotations

from pathlib import Path

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.trace import files
from draftscope.trace.events import AnyEvent

FOLDER = assets() / "lessons"
PICTURES = assets() / "traces"
SUFFIX = ".jsonl.gz"


def names() -> list[str]:
    """Their names."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def events(name: str) -> tuple[AnyEvent, ...]:
    """The run of that name. Raises `DraftscopeError` where there is none."""
    return _read(FOLDER, name)


def picture(name: str) -> tuple[AnyEvent, ...]:
    """One of the runs that the page opens with. Raises `DraftscopeError` where there is none of that name."""
    return _read(PICTURES, name)


def _read(folder: Path, name: str) -> tuple[AnyEvent, ...]:
    if f"{name}{SUFFIX}" not in {path.name for path in folder.glob(f"*{SUFFIX}")}:
        raise DraftscopeError(f"There is no run recorded as {name[:40]!r}; reload the page.")
    return files.read(folder / f"{name}{SUFFIX}").events
