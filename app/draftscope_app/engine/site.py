"""Where the dashboard is served, and what its doors share there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from draftscope_app.engine.config import Environment

Shared = TypeVar("Shared")
Given = TypeVar("Given")


@dataclass(frozen=True)
class Site:
    """One server of the dashboard. `given` are values for single doors, from the command that serves it."""

    environment: Environment = field(default_factory=lambda: Environment.read({}))
    host: str = "127.0.0.1"
    network: str = ""  # its address for other machines; empty without one
    own_process: bool = True  # the engine is in a process of its own, which may wait for servers and others
    chat: bool = False  # the target is expected to answer in a chat
    given: tuple[object, ...] = ()
    _kept: dict[object, object] = field(default_factory=dict)

    @property
    def lets_load(self) -> bool:
        """Visitors may load other models, and run what its operator could run."""
        return self.own_process and self.environment.lets_load(self.host)

    @property
    def own_machine(self) -> bool:
        """All visitors are at the operator's own machine."""
        return self.own_process and self.environment.own_machine(self.host)

    def find(self, kind: type[Given]) -> Given | None:
        """The given value of that type, if there is one."""
        return next((value for value in self.given if isinstance(value, kind)), None)

    def keep(self, make: Callable[[Site], Shared]) -> Shared:
        """What `make` makes of this site, made once: tasks of one door share it."""
        if make not in self._kept:
            self._kept[make] = make(self)
        return self._kept[make]  # type: ignore[return-value] # as `make` has made it
