"""The comparison of all drafters and the check of one, as the instrument asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.messages import Job
from draftscope_app.engine.sessions import asker_of
from draftscope_app.page.layout import Widgets
from draftscope_app.page.runs import tasks
from draftscope_app.page.runs.feed import note
from draftscope_app.page.shared import PRIVATE, Shared

RECEIVERS: tuple[tasks.Kind, ...] = ("compare", "check", "audit", "load")  # in the order of their components


class TaskListeners:
    def __init__(self, shared: Shared, widgets: Widgets) -> None:
        self.shared, self.widgets = shared, widgets

    def attach(self, found: Any) -> None:
        """`found`: the listener after which a reloaded page's visitor is known."""
        widgets = self.widgets
        limits: dict[str, Any] = {"concurrency_limit": None, "preprocess": False, **PRIVATE}
        widgets.instrument.compare(self.compare, set(widgets.values), widgets.compared, **limits)
        widgets.instrument.check(self.check, None, widgets.checked, **limits)
        found.then(self.resume, None, [widgets.compared, widgets.checked, widgets.audited, widgets.loaded], **limits)

    async def compare(self, values: Mapping[Any, Any], request: gr.Request) -> AsyncIterator[str]:
        """Every drafter on this prompt, with these settings."""

        def job() -> Job:
            admission = self.shared.admission
            drafters, most = admission.engine.status.drafters, admission.limits.most_tokens
            return tasks.comparison(self.widgets.read(values, self.shared.admission.limits.most_text), drafters, most)

        async for text in self._answered("compare", job, request):
            yield text

    async def check(self, request: gr.Request) -> AsyncIterator[str]:
        """The shown run's drafter, checked against the target."""

        def job() -> Job:
            return tasks.check(self.shared.events(request.session_hash))

        async for text in self._answered("check", job, request):
            yield text

    async def _answered(self, kind: tasks.Kind, job: Callable[[], Job], request: gr.Request) -> AsyncIterator[str]:
        visitor = self.shared.visitors.of(request.session_hash)
        try:
            if visitor.active is not None:
                raise DraftscopeError("A run of yours is still going on; wait for its end, or press Stop.")
            handle = self.shared.admission.admit(job(), asker=asker_of(request, request.session_hash))
        except DraftscopeError as error:
            yield note(str(error))
            return
        visitor.replace(handle)
        async for text in tasks.answers(kind, self.shared.admission.engine, visitor, handle):
            yield text

    async def resume(self, request: gr.Request) -> AsyncIterator[list[Any]]:
        """A page was reloaded: its latest comparison, check, audit or load, as far as it is, and what follows."""
        visitor = self.shared.visitors.of(request.session_hash)
        answer, handle = visitor.answer, visitor.active
        if answer is None:
            yield [gr.skip()] * len(RECEIVERS)
            return

        def sent(text: str) -> list[Any]:
            return [text if kind == answer.kind else gr.skip() for kind in RECEIVERS]

        if handle is None or handle.job.run != answer.run:
            yield sent(tasks.told(answer))
            return
        async for text in tasks.answers(answer.kind, self.shared.admission.engine, visitor, handle):
            yield sent(text)
