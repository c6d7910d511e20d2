"""What every listener of the page works with: admission and engine, the visitors, the page's defaults."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope.trace.events import EVENT, AnyEvent
from draftscope_app.engine.admission import Admission, Given, Make
from draftscope_app.engine.answers import Answer, Engine, Log, Part, follow
from draftscope_app.engine.jobs import DrafterChoice
from draftscope_app.engine.site import Site
from draftscope_app.engine.visitors import Visitor, Visitors, asker_of
from draftscope_app.page.controls import Controls

Values = Mapping[Any, Any]  # what the components hold, by component
PRIVATE: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}  # of every listener of the page


class View(Protocol):
    """How a page shows what comes of something that it asked for."""

    async def show(self, answer: Answer, part: Part) -> Any:
        """How the answer stands."""

    def refuse(self, sentence: str) -> Any:
        """The same where nothing was begun."""


@dataclass(frozen=True)
class Wanted:
    """What a visitor asks for: `make` makes the job of what is `given`, and its events are added to the `log`, or to
    one of its own. It `replaces` what goes on of theirs, or is refused."""

    given: Given
    make: Make
    replaces: bool = False
    log: Log | None = None


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

    async def ask(self, request: Any, wanted: Wanted, view: View) -> AsyncIterator[Any]:
        """Begins it for the visitor who sent the request, and shows its answer as it grows, or why there is none."""
        visitor = self.visitors.of(request.session_hash)
        try:
            if visitor.active is not None and not wanted.replaces:
                raise DraftscopeError("A run of yours is still going on; wait for its end, or press Stop.")
            asker = asker_of(request, request.session_hash)
            answer = self.admission.admit(wanted.given, wanted.make, visitor.active, asker, wanted.log)
        except DraftscopeError as error:
            yield view.refuse(str(error))
            return
        visitor.replace(answer)
        async for update in shown(self.admission.engine, visitor, answer, view):
            yield update

    def stop(self, request: gr.Request) -> None:
        """Ends what goes on for the visitor."""
        if active := self.visitors.of(request.session_hash).active:
            active.stop()

    def drafter(self, name: str) -> DrafterChoice | None:
        return next((d for d in self.admission.engine.status.drafters if d.name == name), None)


async def shown(
    engine: Engine, visitor: Visitor, answer: Answer, view: View, start: int | None = None
) -> AsyncIterator[Any]:
    """Everything that happens to an answer until it is over: from its beginning, or from event number `start` on."""
    async for part in follow(engine, answer, answer.start if start is None else start, visitor.keep_s):
        yield await view.show(answer, part)


def sent_by(event: gr.EventData) -> Any:
    """The data that `Draftscope.ask` sends; None for an event without it."""
    try:
        return event.payload
    except (AttributeError, TypeError):
        return None
