"""The lessons' recorded runs and sweeps: which there are, and what they hold. The words stand in assets/instrument."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.trace import files
from draftscope.trace.events import AnyEvent
from draftscope.trace.glossary import GLOSSARY
from draftscope_app.engine.sessions import new_run_id
from draftscope_app.page.runs.feed import delta, note

SUFFIX = ".jsonl.gz"
SWEEP = ".sweep.jsonl"


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
    return files.read(_folder() / f"{name}{SUFFIX}").events


def told(name: str) -> str:
    """The run as one delta, or one sentence."""
    try:
        return as_delta(name, events(name), swept(name))
    except DraftscopeError as error:
        return note(str(error))


def swept(name: str) -> list[dict[str, Any]]:
    """The sweep beside the run of that name, run by run; empty where there is none."""
    path = _folder() / f"{name}{SWEEP}"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def as_delta(name: str, run: Iterable[AnyEvent], sweep: Sequence[Mapping[str, Any]] = ()) -> str:
    """A lesson's run as the page hears it."""
    return delta(0, new_run_id(), map(files.line, run), lesson=name, sweep=list(sweep))


def _folder() -> Path:
    return assets() / "lessons"
