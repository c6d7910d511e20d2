"""The lessons' recorded runs, sweeps and audits: which there are, and what they hold.

The words stand in assets/instrument.
"""

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
from draftscope_app.engine.jobs import new_id
from draftscope_app.page.runs.feed import delta, note

SUFFIX = ".jsonl.gz"
SWEEP = ".sweep.jsonl"
AUDITS = ".audits.jsonl"
MUSEUM = assets() / "lessons" / "museum.json"


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


def delta_of(name: str) -> str:
    """The run as one delta, or one sentence."""
    try:
        return as_delta(name, events(name), swept(name), audited(name))
    except DraftscopeError as error:
        return note(str(error))


def swept(name: str) -> list[dict[str, Any]]:
    """The sweep beside the run of that name, run by run; empty where there is none."""
    return _records(name, SWEEP)


def audited(name: str) -> list[dict[str, Any]]:
    """How the audits of the servers of that run ended, one for each; empty where there is none."""
    return _records(name, AUDITS)


def museum() -> dict[str, Any]:
    """The exhibits of the museum, and the bugs that it does not have."""
    record: dict[str, Any] = json.loads(MUSEUM.read_text(encoding="utf-8"))
    return record


def _records(name: str, suffix: str) -> list[dict[str, Any]]:
    path = _folder() / f"{name}{suffix}"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def as_delta(
    name: str,
    run: Iterable[AnyEvent],
    sweep: Sequence[Mapping[str, Any]] = (),
    audits: Sequence[Mapping[str, Any]] = (),
) -> str:
    """A lesson's run as the page hears it."""
    lines = map(files.line, run)
    return delta(0, new_id(), lines, lesson=name, sweep=list(sweep), audits=list(audits))


def _folder() -> Path:
    return assets() / "lessons"
