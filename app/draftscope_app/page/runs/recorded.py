"""The recorded runs that come with the project: which there are, and what they hold."""

from __future__ import annotations

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.trace import files
from draftscope.trace.events import AnyEvent

FOLDER = assets() / "lessons"
SUFFIX = ".jsonl.gz"


def names() -> list[str]:
    """Their names."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def events(name: str) -> tuple[AnyEvent, ...]:
    """The run of that name. Raises `DraftscopeError` where there is none."""
    if name not in names():
        raise DraftscopeError(f"There is no run recorded as {name[:40]!r}; reload the page.")
    return files.read(FOLDER / f"{name}{SUFFIX}").events
