"""A task: what a visitor asks for becomes a job, whose answer is shown in a card as it grows.

One place begins it, says how it stands, and finds it again after a reload.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import gradio as gr
from markupsafe import Markup

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.answers import Answer, Part, follow
from draftscope_app.engine.jobs import AnyJob, new_id
from draftscope_app.page import notes
from draftscope_app.page.runs.feed import note
from draftscope_app.page.shared import PRIVATE, Shared

Values = Mapping[Any, Any]  # what the components hold, by component


class Task(Protocol):
    """What a card asks for, and how it shows the answer."""

    @property
    def kind(self) -> str:
        """That of its jobs."""

    def job(self, values: Values, sent: Any, session: str | None, /) -> AnyJob:
        """What was set and sent, in a visitor's session. May raise `DraftscopeError`."""

    def show(self, answer: Answer, part: Part) -> Any:
        """The updates of its components: how the answer stands."""

    def refuse(self, sentence: str) -> Any:
        """The same where nothing was begun."""


@dataclass(frozen=True)
class InstrumentTask:
    """One that a card of the instrument asks for and shows. `about` is what it shows beside the answer."""

    kind: str
    job: Callable[[Values, Any, str | None], AnyJob]
    about: Callable[[Any], Mapping[str, Any]] = lambda _: {}

    def show(self, answer: Answer, part: Part) -> Any:
        """The whole answer so far as the instrument's card hears it, so that what a page misses comes with the next
        delta. The events are passed on as the engine wrote them."""
        about = dict(self.about(answer.job)) | {"created": answer.created}
        why = answer.note if answer.refused else ""
        head = json.dumps({"state": part.standing, "waits": part.waits, "about": about, "note": why or ""})[:-1]
        aside = "" if part.note is None or answer.refused else f', "note": {json.dumps(part.note)}'
        lines = ",".join(line for line in answer.lines if line)
        return f'{{"seq": {json.dumps(new_id())}, {json.dumps(self.kind)}: {head}, "ev": [{lines}]}}{aside}}}'

    def refuse(self, sentence: str) -> Any:
        return note(sentence)


class TaskListeners:
    """Begins a task, follows its answer and finds it again."""

    def __init__(self, shared: Shared, task: Task) -> None:
        self.shared, self.task = shared, task

    def attach(self, press: Any, inputs: Any, outputs: Any, resumed: Any) -> Any:
        """`press` is the event that asks for it; `resumed` the listener after which a reloaded page's visitor is known.
        Returns the listeners of both, after which more may follow."""
        limits: dict[str, Any] = {"concurrency_limit": None, "preprocess": False, **PRIVATE}
        return press(self.begin, inputs, outputs, **limits), resumed.then(self.resume, None, outputs, **limits)

    async def begin(self, values: Values, event: gr.EventData, request: gr.Request) -> AsyncIterator[Any]:
        """Its answer as it grows, or why there is none."""
        session = request.session_hash
        try:
            answer = self.shared.begin(request, lambda: self.task.job(values, sent_by(event), session))
        except DraftscopeError as error:
            yield self.task.refuse(str(error))
            return
        async for update in self._shown(answer, session):
            yield update

    async def resume(self, request: gr.Request) -> AsyncIterator[Any]:
        """A page was reloaded: its latest answer, as far as it is, and what follows."""
        answer = self.shared.visitors.of(request.session_hash).cards.get(self.task.kind)
        if answer is None:
            yield gr.skip()
            return
        async for update in self._shown(answer, request.session_hash):
            yield update

    async def _shown(self, answer: Answer, session: str | None) -> AsyncIterator[Any]:
        keep_s = self.shared.visitors.of(session).keep_s
        async for part in follow(self.shared.admission.engine, answer, 0, keep_s):
            yield await asyncio.to_thread(self.task.show, answer, part)


def stands(part: Part) -> Markup:
    """Of an answer that is not over: what it waits for or measures, above a bar."""
    words = part.waits or "measuring"
    return notes.progress(f"{words[0].upper()}{words[1:]}.", part.progress.share or None if part.progress else None)


def sent_by(event: gr.EventData) -> Any:
    """The data that `Draftscope.ask` sends; None for an event without it."""
    try:
        return event.payload
    except (AttributeError, TypeError):
        return None
