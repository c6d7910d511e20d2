"""Measure and Stop of the card, and its file to save."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.admission import refuse_long
from draftscope_app.engine.handle import RunHandle
from draftscope_app.engine.messages import Happened, Job, Noted, Refused
from draftscope_app.engine.sessions import asker_of
from draftscope_app.page import notes
from draftscope_app.page.advice import view, wanted
from draftscope_app.page.advice.form import AdviceForm
from draftscope_app.page.runs.feed import PERIOD_S
from draftscope_app.page.shared import PRIVATE, Shared
from draftscope_app.reports.advice_map import drawn, what_if
from draftscope_app.reports.advice_page import page

FILE = "draftscope-advice.html"


class AdviceListeners:
    def __init__(self, shared: Shared, form: AdviceForm) -> None:
        self.shared, self.form = shared, form

    def attach(self) -> None:
        form = self.form
        outputs = [form.answer, form.measure, form.stop, form.save, form.report, form.map.group]
        drawn_to = [form.map.plot, form.map.note, form.map.group]
        form.card.expand(self.drafters, None, form.fields["drafters"], queue=False, **PRIVATE)
        form.measure.click(
            self.measure, set(form.fields.values()), outputs, concurrency_limit=None, preprocess=False, **PRIVATE
        ).then(self.draw, [form.report, *form.map.inputs], drawn_to, **PRIVATE)
        for control in form.map.inputs:
            changed = control.release if isinstance(control, gr.Slider) else control.change
            changed(
                self.draw, [form.report, *form.map.inputs], drawn_to, preprocess=False, trigger_mode="always_last",
                **PRIVATE,
            )  # fmt: skip
        form.stop.click(self.stop, None, None, queue=False, **PRIVATE)

    def drafters(self) -> Any:
        """Those that are loaded now."""
        return gr.update(choices=wanted.offered(self.shared.admission.engine.status.drafters))

    def draw(self, report: view.Report | None, which: Any, alpha: Any, draft_cost: Any, machine: Any) -> list[Any]:
        """The map as the sliders say; it is shown once there is something on it."""
        if not report:
            return [gr.skip(), gr.skip(), gr.skip()]
        figure, note = drawn(report, str(which), what_if(wanted.share(alpha), wanted.factor(draft_cost), str(machine)))
        return [figure, notes.muted(note), gr.update(visible=True)]

    def stop(self, request: gr.Request) -> None:
        active = self.shared.visitors.of(request.session_hash).active
        if active is not None and active.job.advises is not None:
            active.stop()

    async def measure(self, values: Mapping[Any, Any], request: gr.Request) -> AsyncIterator[list[Any]]:
        """Progress, then the answer."""
        visitor = self.shared.visitors.of(request.session_hash)
        try:
            if visitor.active is not None:
                raise DraftscopeError("A run of yours is still going on; wait for its end, or press Stop.")
            asker = asker_of(request, request.session_hash)
            handle = self.shared.admission.admit(self._job(values), asker=asker)
        except DraftscopeError as error:
            yield self._shown(notes.refused(str(error)), running=False)
            return
        visitor.replace(handle)
        async for text in self._answered(handle):
            yield text

    def _job(self, values: Mapping[Any, Any]) -> Job:
        admission = self.shared.admission
        given = {name: values[widget] for name, widget in self.form.fields.items()}
        refuse_long(given, admission.limits.most_text)
        status = admission.engine.status
        return wanted.job(given, status.drafters, admission.limits, status.chat)

    async def _answered(self, handle: RunHandle) -> AsyncIterator[list[Any]]:
        """Progress as it comes, and at the end the answer, or why there is none."""
        engine, shown, report, sentence, aside = self.shared.admission.engine, "", None, "", ""
        event: dict[str, Any] | None = None
        assert handle.job.advises is not None
        seconds = handle.job.advises.question.seconds
        try:
            while True:
                changes, over = engine.changed.count, handle.over
                for message in handle.drain():
                    if isinstance(message, Happened):
                        event = json.loads(message.line)
                        report = report or event.get("report")
                    elif isinstance(message, Refused):
                        sentence = message.sentence
                    elif isinstance(message, Noted):
                        aside = message.sentence
                if over:
                    break
                text = view.progress(event, seconds) if event and not report else view.waiting(engine.place(handle))
                text += notes.muted(aside) if aside else ""
                if text != shown:
                    shown = text
                    yield self._shown(text, running=True)
                await asyncio.sleep(PERIOD_S)
                await engine.changed.wait(changes)
        finally:
            handle.stop()
        if report is None:
            yield self._shown(notes.refused(sentence) if sentence else view.stopped(), running=False)
            return
        file = await asyncio.to_thread(_saved, report)
        yield self._shown(view.answer(report), running=False, found=(report, file))

    def _shown(self, text: str, running: bool, found: tuple[view.Report, str] | None = None) -> list[Any]:
        """The answer's text, and which buttons can be pressed. The map of the last answer goes; its report can be saved
        until there is another one."""
        report, file = found or (None, None)
        save = gr.update(value=file, interactive=True) if file else gr.skip()
        buttons = [gr.update(interactive=not running), gr.update(interactive=running)]
        return [text, *buttons, save, report, gr.update(visible=False)]


def _saved(report: view.Report) -> str:
    """The report's page as a file, which the server deletes after a while."""
    path = Path(tempfile.mkdtemp(dir=os.environ.get("GRADIO_TEMP_DIR"))) / FILE
    path.write_text(page(report), encoding="utf-8")
    return str(path)
