"""Races, audits and loads of servers, as the instrument's Servers view asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.handle import RunHandle
from draftscope_app.engine.sessions import asker_of
from draftscope_app.page.layout import Widgets
from draftscope_app.page.listeners.runs import RunListeners, sent
from draftscope_app.page.runs import servers, tasks
from draftscope_app.page.runs.feed import note, stream
from draftscope_app.page.shared import PRIVATE, Shared


class ServerListeners:
    def __init__(self, shared: Shared, widgets: Widgets) -> None:
        self.shared, self.widgets = shared, widgets

    def attach(self, runs: RunListeners) -> None:
        """`runs` draws the plots after a race."""
        widgets, values = self.widgets, set(self.widgets.values)
        limits: dict[str, Any] = {
            "trigger_mode": "multiple", "concurrency_limit": None, "preprocess": False, **PRIVATE,
        }  # fmt: skip
        after: dict[str, Any] = {"outputs": [widgets.messages, *widgets.plots], **PRIVATE}
        widgets.instrument.race(self.race, values, widgets.instrument, **limits).then(runs.after, **after)
        widgets.instrument.audit(self.audit, values, widgets.audited, **limits)
        widgets.instrument.loadtest(self.load, values, widgets.loaded, **limits)

    async def race(self, values: Mapping[Any, Any], event: gr.EventData, request: gr.Request) -> AsyncIterator[str]:
        """A race of servers, shown as a run."""
        try:
            handle = self._admitted(values, event, request)
        except DraftscopeError as error:
            yield note(str(error))
            return
        async for text in stream(self.shared.admission.engine, self.shared.visitors.of(request.session_hash), handle):
            yield text

    async def audit(self, values: Mapping[Any, Any], event: gr.EventData, request: gr.Request) -> AsyncIterator[str]:
        """An audit of one server, in its card."""
        async for text in self._answered("audit", values, event, request):
            yield text

    async def load(self, values: Mapping[Any, Any], event: gr.EventData, request: gr.Request) -> AsyncIterator[str]:
        """Servers under load, in their card."""
        async for text in self._answered("load", values, event, request):
            yield text

    async def _answered(
        self, kind: tasks.Kind, values: Mapping[Any, Any], event: gr.EventData, request: gr.Request
    ) -> AsyncIterator[str]:
        visitor = self.shared.visitors.of(request.session_hash)
        try:
            handle = self._admitted(values, event, request)
        except DraftscopeError as error:
            yield note(str(error))
            return
        async for text in tasks.answers(kind, self.shared.admission.engine, visitor, handle):
            yield text

    def _admitted(self, values: Mapping[Any, Any], event: gr.EventData, request: gr.Request) -> RunHandle:
        shared = self.shared
        visitor, limits = shared.visitors.of(request.session_hash), shared.admission.limits
        asked = servers.ServersRequest.of(sent(event))
        if asked.kind != "race" and visitor.active is not None:
            raise DraftscopeError("A run of yours is still going on; wait for its end, or press Stop.")
        controls = self.widgets.read(values, limits.most_text)
        drafter = shared.drafter(controls["drafter"])
        job = servers.job(asked, shared.servers, controls, drafter, limits.most_tokens)
        handle = shared.admission.admit(job, visitor.active, asker_of(request, request.session_hash))
        visitor.replace(handle)
        return handle
