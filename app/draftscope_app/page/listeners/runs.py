"""Run, Step, Stop, Fork, and a run found again after a reload; and the plots that follow a run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.messages import Job
from draftscope_app.engine.sessions import asker_of, new_run_id
from draftscope_app.page.controls import Controls, lanes
from draftscope_app.page.layout import Widgets
from draftscope_app.page.plots.plots import pictures
from draftscope_app.page.runs import forks
from draftscope_app.page.runs.feed import note, settled, stream, whole
from draftscope_app.page.shared import PRIVATE, Shared

SOLO_REPEATS = 3  # whole runs of each lane after a race


class RunListeners:
    """Each run has one generator for all of its lanes: two listeners of one click would run one after the other."""

    def __init__(self, shared: Shared, widgets: Widgets) -> None:
        self.shared, self.widgets = shared, widgets

    def attach(self, query: str) -> Any:
        """`query` is the JavaScript that makes an address of the controls' `values`. Returns the listener after which
        a reloaded page's visitor is known."""
        widgets, plots, values = self.widgets, list(self.widgets.plots), self.widgets.values
        clicks = [widgets.run.click, widgets.step.click]
        gr.on(clicks, None, values, None, js=f"(...values) => Draftscope.remember({query})")
        streams: dict[str, Any] = {
            "outputs": widgets.instrument, "trigger_mode": "multiple",
            "concurrency_limit": None,  # `Admission` decides who may run, and refuses in a sentence
            "preprocess": False,  # a value out of range gets the engine's sentence, not Gradio's
            **PRIVATE,
        }  # fmt: skip
        after: dict[str, Any] = {"outputs": [widgets.messages, *plots], **PRIVATE}
        widgets.run.click(self.run, set(values), **streams).then(self.after, **after)
        widgets.step.click(self.step, set(values), **streams).then(self.after, **after)
        widgets.instrument.fork(self.fork, None, **streams).then(self.after, **after)
        found = widgets.instrument.resume(self.resume, None, **streams)
        found.then(self.after, **after)
        # Plots of the last run must not stay beside a new one; after a refused run, `after` restores them.
        widgets.run.click(None, None, plots, js=f"() => {json.dumps([None] * len(plots))}")
        # An update that arrives while the drawer opens is lost, so an opened drawer asks for its plots.
        widgets.drawer.expand(self.drawn, queue=False, **after)
        widgets.stop.click(self.stop, None, None, queue=False, **PRIVATE)
        return found

    async def run(self, values: Mapping[Any, Any], request: gr.Request) -> AsyncIterator[str]:
        async for text in self._start(values, request, None):
            yield text

    async def step(self, values: Mapping[Any, Any], request: gr.Request) -> AsyncIterator[Any]:
        """One more round of the run in steps, or the first round of a new one."""
        active = self.shared.visitors.of(request.session_hash).active
        if active is not None and active.job.steps is not None:
            active.step()
            yield gr.skip()
            return
        async for text in self._start(values, request, 1):
            yield text

    async def _start(self, values: Mapping[Any, Any], request: gr.Request, steps: int | None) -> AsyncIterator[str]:
        shared = self.shared
        visitor = shared.visitors.of(request.session_hash)
        try:
            job = self._job(self.widgets.read(values, self.shared.admission.limits.most_text), steps)
            handle = shared.admission.admit(job, visitor.active, asker_of(request, request.session_hash))
        except DraftscopeError as error:
            yield note(str(error))
            return
        visitor.replace(handle)
        async for text in stream(shared.admission.engine, visitor, handle):
            yield text

    def _job(self, controls: Controls, steps: int | None) -> Job:
        most = self.shared.admission.limits.most_tokens
        pair = lanes(controls, self.shared.drafter(controls["drafter"]), most)
        solo = SOLO_REPEATS if steps is None and len(pair) > 1 else 0
        return Job(new_run_id(), controls["prompt"], pair, steps, solo)

    async def fork(self, event: gr.EventData, request: gr.Request) -> AsyncIterator[str]:
        """Forks a lane of the shown live run at one token, as a new lane."""
        shared = self.shared
        visitor = shared.visitors.of(request.session_hash)
        try:
            visitor.shown.require()
            if not visitor.shown.run or visitor.active is not None:
                raise DraftscopeError("Only a live run that is over can be forked; press Run, and wait for its end.")
            wanted = forks.ForkRequest.of(sent(event))
            job = forks.job(wanted, shared.events(request.session_hash), new_run_id())
            handle = shared.admission.admit(job, asker=asker_of(request, request.session_hash))
        except DraftscopeError as error:
            yield note(str(error))
            return
        visitor.replace(handle)
        async for text in stream(shared.admission.engine, visitor, handle):
            yield text

    async def resume(self, event: gr.EventData, request: gr.Request) -> AsyncIterator[Any]:
        """A page has opened: the run of its tab from before a reload, what has happened so far and what follows."""
        shared, token = self.shared, sent(event)
        try:
            visitor = shared.visitors.claim(request.session_hash or "", token if isinstance(token, str) else "")
        except DraftscopeError as error:
            yield note(str(error))
            return
        yield whole(visitor) if visitor.shown.run else gr.skip()
        handle = visitor.active
        if handle is not None and handle.job.is_run:
            async for text in stream(shared.admission.engine, visitor, handle):
                yield text

    def stop(self, request: gr.Request) -> None:
        active = self.shared.visitors.of(request.session_hash).active
        if active is not None:
            active.stop()

    def after(self, request: gr.Request) -> list[Any]:
        """How many deltas the page should have received, and the plots of the run that is shown."""
        return [settled(self.shared.visitors.of(request.session_hash)), *self.drawn(request)[1:]]

    def drawn(self, request: gr.Request) -> list[Any]:
        """The plots of the run that is shown; or one sentence."""
        try:
            return [gr.skip(), *pictures(self.shared.events(request.session_hash))]
        except DraftscopeError as error:
            return [note(str(error)), *[gr.skip()] * len(self.widgets.plots)]


def sent(event: gr.EventData) -> Any:
    """The data that `Draftscope.ask` sends; None for an event without it."""
    try:
        return event.asked
    except (AttributeError, TypeError):
        return None
