"""Run, Step, Stop, Fork, and a run found again after a reload; and the plots that follow a run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.admission import Given
from draftscope_app.engine.jobs import Job
from draftscope_app.engine.run_job import RunJob
from draftscope_app.page.controls import race_of
from draftscope_app.page.layout import Widgets, by_name
from draftscope_app.page.plots.run_plots import pictures
from draftscope_app.page.runs import forks
from draftscope_app.page.runs.feed import RunFeed, note, rest
from draftscope_app.page.shared import PRIVATE, Shared, Values, Wanted, sent_by, shown


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
        streams, after = self._streams, self._after
        widgets.run.click(self.run, set(values), **streams).then(self.after, **after)
        widgets.step.click(self.step, set(values), **streams).then(self.after, **after)
        widgets.instrument.fork(self.fork, None, **streams).then(self.after, **after)
        resumed = widgets.instrument.resume(self.resume, None, **streams)
        resumed.then(self.after, **after)
        # Plots of the last run must not stay beside a new one; after a refused run, `after` restores them.
        widgets.run.click(None, None, plots, js=f"() => {json.dumps([None] * len(plots))}")
        # An update that arrives while the drawer opens is lost, so an opened drawer asks for its plots.
        widgets.drawer.expand(self.drawn, queue=False, **after)
        widgets.stop.click(self.shared.stop, None, None, queue=False, **PRIVATE)
        return resumed

    @property
    def _streams(self) -> dict[str, Any]:
        """How a listener answers with a run."""
        return {
            "outputs": self.widgets.instrument, "trigger_mode": "multiple",
            "concurrency_limit": None,  # `Admission` decides who may run, and refuses in a sentence
            "preprocess": False,  # a value out of range gets the engine's sentence, not Gradio's
            **PRIVATE,
        }  # fmt: skip

    @property
    def _after(self) -> dict[str, Any]:
        return {"outputs": [self.widgets.messages, *self.widgets.plots], **PRIVATE}

    def attach_run(self, press: Any, job: Callable[[Given, Any], Job]) -> None:
        """A task's event `press`, of which `job` makes a job that is shown as a run."""

        async def run(values: Values, event: gr.EventData, request: gr.Request) -> AsyncIterator[str]:
            given, sent = by_name(self.widgets.controls, values), sent_by(event)
            async for text in self._asked(request, Wanted(given, lambda given: job(given, sent), replaces=True)):
                yield text

        press(run, set(self.widgets.values), **self._streams).then(self.after, **self._after)

    async def run(self, values: Values, request: gr.Request) -> AsyncIterator[str]:
        async for text in self._asked(request, self._race(values, None)):
            yield text

    async def step(self, values: Values, request: gr.Request) -> AsyncIterator[Any]:
        """One more round of the run in steps, or the first round of a new one."""
        active = self.shared.visitors.of(request.session_hash).active
        if active is not None and isinstance(active.job, RunJob) and active.job.steps is not None:
            active.step()
            yield gr.skip()
            return
        async for text in self._asked(request, self._race(values, 1)):
            yield text

    async def fork(self, event: gr.EventData, request: gr.Request) -> AsyncIterator[str]:
        """Forks a lane of the shown live run at one token, as a new lane."""
        visitor = self.shared.visitors.of(request.session_hash)

        def job(_: Given) -> RunJob:
            visitor.shown.require()
            if not visitor.shown.run or visitor.active is not None:
                raise DraftscopeError("Only a live run that is over can be forked; press Run, and wait for its end.")
            return forks.job(forks.ForkRequest.of(sent_by(event)), self.shared.events(request.session_hash))

        async for text in self._asked(request, Wanted({}, job, replaces=True, log=visitor.shown)):
            yield text

    def _asked(self, request: gr.Request, wanted: Wanted) -> AsyncIterator[str]:
        return self.shared.ask(request, wanted, RunFeed(self.shared.visitors.of(request.session_hash)))

    def _race(self, values: Values, steps: int | None) -> Wanted:
        given = by_name(self.widgets.controls, values)
        drafter = self.shared.drafter(given["drafter"])
        return Wanted(given, lambda controls: race_of(controls, drafter, steps), replaces=True)

    async def resume(self, event: gr.EventData, request: gr.Request) -> AsyncIterator[Any]:
        """A page has opened: the run of its tab from before a reload, what has happened so far and what follows."""
        shared, token = self.shared, sent_by(event)
        try:
            visitor = shared.visitors.claim(request.session_hash or "", token if isinstance(token, str) else "")
        except DraftscopeError as error:
            yield note(str(error))
            return
        log, latest = visitor.shown, visitor.active
        start = len(log.lines) if latest is not None and latest.log is log else None
        yield rest(visitor, whole=True) if log.run else gr.skip()
        if latest is not None and latest.job.is_run:
            async for text in shown(shared.admission.engine, visitor, latest, RunFeed(visitor), start):
                yield text

    def after(self, request: gr.Request) -> list[Any]:
        """How many events the page should have received, and the plots of the run that is shown."""
        visitor = self.shared.visitors.of(request.session_hash)
        text = rest(visitor, len(visitor.shown.lines)) if visitor.shown.run else gr.skip()
        return [text, *self.drawn(request)[1:]]

    def drawn(self, request: gr.Request) -> list[Any]:
        """The plots of the run that is shown; or one sentence."""
        try:
            return [gr.skip(), *pictures(self.shared.events(request.session_hash))]
        except DraftscopeError as error:
            return [note(str(error)), *[gr.skip()] * len(self.widgets.plots)]
