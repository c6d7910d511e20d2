"""Drafters from elsewhere: of installed packages, under the entry-point group `draftscope.drafters`, or given by a
program or a file.

One that cannot be used is left out, with a warning that names it; it never ends a command that does not ask for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import BaseModel

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.models import head_kinds
from draftscope.models.head_kinds import HeadKind

NAME = re.compile(r"\w[\w.-]*")  # no commas and colons: a command takes several drafters, and 'drafter:model'


@dataclass(frozen=True)
class Plugin:
    """A drafter from elsewhere: its name, the package or file that it is from, and what was found there: a
    `DrafterInfo` or a class of drafters. Raises `DraftscopeError` for a field that would end the commands of others."""

    name: str
    source: str
    made: Any

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            self._refuse("name", self.name, "give it one of letters, digits and '-'")
        options = getattr(self.made, "options", None)
        if not (isinstance(options, type) and issubclass(options, BaseModel)):
            self._refuse("options", options, "name a class, such as draftscope.GammaOptions")
        if isinstance(self.made, type):
            return
        for field in ("title", "paper", "idle"):
            if not isinstance(text := getattr(self.made, field), str):
                self._refuse(field, text, "write a text")
        if not isinstance(head := self.made.head, HeadKind | None):
            self._refuse("head", head, "give a HeadKind, or leave it out")

    def _refuse(self, field: str, value: object, remedy: str) -> None:
        raise DraftscopeError(
            f"The drafter {quoted(repr(self.name))} of {self.source} has {field} = {quoted(repr(value))}; {remedy}."
        )

    @property
    def options(self) -> Any:
        """The class of its options."""
        return self.made.options

    def give_head(self) -> None:
        """Adds the kind of head that it needs, if that is a new one. Raises `DraftscopeError` for a taken name."""
        if not isinstance(self.made, type) and self.made.head is not None:
            head_kinds.register_kind(self.made.head)


_registered: dict[str, Plugin] = {}


def register_plugin(plugin: Plugin) -> None:
    """Adds a drafter for this process; a later one of the same name replaces it, as when a cell is run again."""
    _registered[plugin.name] = plugin


def registered_plugins() -> tuple[Plugin, ...]:
    """Those that this process was given."""
    return tuple(_registered.values())


@lru_cache(maxsize=1)
def installed() -> tuple[EntryPoint, ...]:
    """The entry points; looked up once, because that reads every package's metadata."""
    return tuple(entry_points(group="draftscope.drafters"))


def loaded(entry: EntryPoint) -> Plugin:
    """The drafter that an entry point names. `DraftscopeError` where its package does not load."""
    try:
        made = entry.load()
        return Plugin(getattr(made, "name", entry.name), package_of(entry), made)
    except (Exception, SystemExit) as error:
        raise DraftscopeError(
            f"The drafter '{entry.name}' from {entry.value} does not load ({error}); mend or uninstall it."
        ) from error


def package_of(entry: EntryPoint) -> str:
    """The top-level package in which an entry point lies."""
    return entry.value.partition(":")[0].partition(".")[0]
