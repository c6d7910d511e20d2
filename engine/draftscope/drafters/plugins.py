"""Drafters from elsewhere: of installed packages, under the entry-point group `draftscope.drafters`, or given by a
program or a file.

One that cannot be used is left out, with a warning that names it; it never ends a command that does not ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope.models import head_kinds


@dataclass(frozen=True)
class Plugin:
    """A drafter from elsewhere: its name, the package or file that it is from, and what was found there: a
    `DrafterInfo` or a class of drafters."""

    name: str
    source: str
    made: Any

    @property
    def options(self) -> Any:
        """The class of its options."""
        return self.made.options

    def give_head(self) -> None:
        """Adds the kind of head that it needs, if that is a new one. Raises `DraftscopeError` for a taken name."""
        if (kind := getattr(self.made, "head", None)) is not None:
            head_kinds.give(kind)


_given: dict[str, Plugin] = {}


def give(plugin: Plugin) -> None:
    """Adds a drafter for this process; a later one of the same name replaces it, as when a cell is run again."""
    _given[plugin.name] = plugin


def given() -> tuple[Plugin, ...]:
    """Those that this process was given."""
    return tuple(_given.values())


@lru_cache(maxsize=1)
def installed() -> tuple[EntryPoint, ...]:
    """The entry points; looked up once, because that reads every package's metadata."""
    return tuple(entry_points(group="draftscope.drafters"))


def loaded(entry: EntryPoint) -> Plugin:
    """The drafter that an entry point names. `DraftscopeError` where its package does not load."""
    try:
        made = entry.load()
        plugin = Plugin(getattr(made, "name", entry.name), package_of(entry), made)
        plugin.options.model_fields  # noqa: B018 - raises where this is no drafter
    except Exception as error:
        raise DraftscopeError(
            f"The drafter '{entry.name}' from {entry.value} does not load ({error}); mend or uninstall it."
        ) from error
    return plugin


def package_of(entry: EntryPoint) -> str:
    """The top-level package in which an entry point lies."""
    return entry.value.partition(":")[0].partition(".")[0]
