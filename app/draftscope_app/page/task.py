"""A task on the page: what a visitor asks for becomes a job, whose answer is shown in a card as it grows.

One place begins it, says how it stands, and finds it again after a reload.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import gradio as gr
from markupsafe import Markup

from draftscope_app.engine.admission import Given
from draftscope_app.engine.answers import Answer, Part
from draftscope_app.engine.jobs import Job, new_id
from draftscope_app.page import notes
from draftscope_app.page.controls import names
from draftscope_app.page.layout import MESSAGES, ServerFunction, Widgets, by_name, receiver
from draftscope_app.page.listeners.runs import RunListeners
from draftscope_app.page.runs.feed import note
from draftscope_app.page.shared import PRIVATE, Shared, Values, Wanted, sent_by, shown


@dataclass(frozen=True)
class Core:
    """What tasks attach their listeners to."""

    widgets: Widgets
    runs: RunListeners
    resumed: Any  # the listener after which a reloaded page's visitor is known


class TaskPage:
    """What a task has on a page: the core goes through those of all tasks, and calls what follows."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    @classmethod
    def hand_over(cls) -> dict[str, Any]:
        """Values by name that the instrument gets before it starts (base/given.js)."""
        return {}

    @classmethod
    def recorded(cls) -> Mapping[str, Any]:
        """What its functions answer on a page without a server: 'function', or 'function/question', -> the answer."""
        return {}

    @classmethod
    def still(cls) -> Markup:
        """What of it stands behind its door on a page without a server, beside its card in the instrument."""
        return Markup()

    @property
    def events(self) -> tuple[str, ...]:
        """What its card in the instrument may ask for."""
        return ()

    def functions(self) -> list[ServerFunction]:
        """What its card may call, by their names. Anybody can call them with any JSON."""
        return []

    def lay_out(self, area: str) -> None:
        """Makes its components in one area of the page; called for each area, inside it."""

    def attach(self, core: Core) -> None:
        """Attaches its listeners, once all components are there."""


class CardPage(TaskPage, ABC):
    """A task that a card of the instrument asks for, and whose answer that card hears under the job's kind."""

    kind: ClassVar[str]

    @property
    def events(self) -> tuple[str, ...]:
        return (self.kind,)

    def lay_out(self, area: str) -> None:
        if area == MESSAGES:
            self.receiver = receiver()

    def attach(self, core: Core) -> None:
        self.widgets = core.widgets
        if not self.events:
            return
        press = getattr(core.widgets.instrument, self.kind)
        inputs = {name: core.widgets.controls[name] for name in self.reads}
        TaskListeners(self.shared, self, inputs).attach(press, self.receiver, core.resumed)

    @property
    def reads(self) -> Collection[str]:
        """The controls of which its job is made."""
        return names()

    @abstractmethod
    def job(self, given: Given, sent: Any, session: str | None, /) -> Job:
        """Of what was set, by name, and sent in a visitor's session. May raise `DraftscopeError`."""

    def about(self, job: Any) -> Mapping[str, Any]:
        """What the card shows beside the answer."""
        del job
        return {}

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


class Task(Protocol):
    """What a card asks for, and how it shows the answer."""

    @property
    def kind(self) -> str:
        """That of its jobs."""

    def job(self, given: Given, sent: Any, session: str | None, /) -> Job:
        """Of what was set, by name, and sent in a visitor's session. May raise `DraftscopeError`."""

    def show(self, answer: Answer, part: Part) -> Any:
        """The updates of its components: how the answer stands."""

    def refuse(self, sentence: str) -> Any:
        """The same where nothing was begun."""


class TaskListeners:
    """Asks for a task, shows its answer and finds it again. `inputs`: the components of which it is made, by name."""

    def __init__(self, shared: Shared, task: Task, inputs: Mapping[str, gr.components.Component]) -> None:
        self.shared, self.task, self.inputs = shared, task, inputs

    def attach(self, press: Any, outputs: Any, resumed: Any) -> Any:
        """`press` is the event that asks for it; `resumed` the listener after which a reloaded page's visitor is known.
        Returns the listeners of both, after which more may follow."""
        limits: dict[str, Any] = {"concurrency_limit": None, "preprocess": False, **PRIVATE}
        begun = press(self.begin, set(self.inputs.values()), outputs, **limits)
        return begun, resumed.then(self.resume, None, outputs, **limits)

    async def begin(self, values: Values, event: gr.EventData, request: gr.Request) -> AsyncIterator[Any]:
        """Its answer as it grows, or why there is none."""
        sent, session = sent_by(event), request.session_hash
        wanted = Wanted(by_name(self.inputs, values), lambda given: self.task.job(given, sent, session))
        async for update in self.shared.ask(request, wanted, self):
            yield update

    async def resume(self, request: gr.Request) -> AsyncIterator[Any]:
        """A page was reloaded: its latest answer, as far as it is, and what follows."""
        visitor = self.shared.visitors.of(request.session_hash)
        answer = visitor.cards.get(self.task.kind)
        if answer is None:
            yield gr.skip()
            return
        async for update in shown(self.shared.admission.engine, visitor, answer, self):
            yield update

    async def show(self, answer: Answer, part: Part) -> Any:
        return await asyncio.to_thread(self.task.show, answer, part)

    def refuse(self, sentence: str) -> Any:
        return self.task.refuse(sentence)


def stands(part: Part) -> Markup:
    """Of an answer that is not over: what it waits for or measures, above a bar."""
    words = part.waits or "measuring"
    return notes.progress(f"{words[0].upper()}{words[1:]}.", part.progress.share or None if part.progress else None)
