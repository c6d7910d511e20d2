"""Drafters that other installed packages add, under the entry-point group `draftscope.drafters`."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from draftscope.base.errors import DraftscopeError


@lru_cache(maxsize=1)
def installed() -> tuple[EntryPoint, ...]:
    """The entry points; looked up once, because that reads every package's metadata."""
    return tuple(entry_points(group="draftscope.drafters"))


def loaded(entry: EntryPoint) -> Any:
    """The drafter (`DrafterInfo`) that an entry point names. `DraftscopeError` where its package does not load."""
    try:
        return entry.load()
    except Exception as error:
        raise DraftscopeError(
            f"The drafter '{entry.name}' from {entry.value} does not load ({error}); mend or uninstall it."
        ) from error


def package_of(entry: EntryPoint) -> str:
    """The top-level package in which an entry point lies."""
    return entry.value.partition(":")[0].partition(".")[0]
