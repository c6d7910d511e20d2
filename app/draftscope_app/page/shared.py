"""What every listener of the page works with: admission and engine, the visitors, the page's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from draftscope.trace.events import EVENT, AnyEvent
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.messages import DrafterChoice
from draftscope_app.engine.sessions import Visitors
from draftscope_app.page.controls import Controls
from draftscope_app.page.runs.servers import KnownServers

PRIVATE: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}  # of every listener of the page


@dataclass(frozen=True)
class Shared:
    """One page over one engine."""

    admission: Admission
    visitors: Visitors
    defaults: Controls
    first: tuple[AnyEvent, ...]  # the recorded run that the page opens with
    servers: KnownServers = field(default_factory=KnownServers)  # of other programs

    def events(self, session: str | None) -> list[AnyEvent]:
        """The run that a visitor sees: their own, or the recorded one before their first.

        Raises `DraftscopeError` where it was removed to make room for others.
        """
        shown = self.visitors.of(session).shown
        shown.require()
        return [EVENT.validate_json(text) for text in shown.lines] if shown.lines else list(self.first)

    def drafter(self, name: str) -> DrafterChoice | None:
        return next((d for d in self.admission.engine.status.drafters if d.name == name), None)
