"""What every listener of the page works with: admission and engine, the visitors, the page's defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope.trace.events import EVENT, AnyEvent
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.answers import Answer, Log
from draftscope_app.engine.jobs import DrafterChoice, Job
from draftscope_app.engine.site import Site
from draftscope_app.engine.visitors import Visitors, asker_of
from draftscope_app.page.controls import Controls

Values = Mapping[Any, Any]  # what the components hold, by component
PRIVATE: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}  # of every listener of the page


@dataclass(frozen=True)
class Shared:
    """One page over one engine."""

    admission: Admission
    visitors: Visitors
    defaults: Controls
    first: tuple[AnyEvent, ...]  # the recorded run that the page opens with
    site: Site = field(default_factory=Site)

    def events(self, session: str | None) -> list[AnyEvent]:
        """The run that a visitor sees: their own, or the recorded one before their first.

        Raises `DraftscopeError` where it was removed to make room for others.
        """
        shown = self.visitors.of(session).shown
        shown.require()
        return [EVENT.validate_json(text) for text in shown.lines] if shown.lines else list(self.first)

    def begin(self, request: Any, job: Callable[[], Job], replaces: bool = False, log: Log | None = None) -> Answer:
        """Begins a job for the visitor who sent the request. It `replaces` what goes on of theirs, or is refused.

        Raises `DraftscopeError` where it cannot begin.
        """
        visitor = self.visitors.of(request.session_hash)
        if visitor.active is not None and not replaces:
            raise DraftscopeError("A run of yours is still going on; wait for its end, or press Stop.")
        answer = self.admission.admit(job(), visitor.active, asker_of(request, request.session_hash), log)
        visitor.replace(answer)
        return answer

    def stop(self, request: gr.Request) -> None:
        """Ends what goes on for the visitor."""
        if active := self.visitors.of(request.session_hash).active:
            active.stop()

    def drafter(self, name: str) -> DrafterChoice | None:
        return next((d for d in self.admission.engine.status.drafters if d.name == name), None)


def sent_by(event: gr.EventData) -> Any:
    """The data that `Draftscope.ask` sends; None for an event without it."""
    try:
        return event.payload
    except (AttributeError, TypeError):
        return None
