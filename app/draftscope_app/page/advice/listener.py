"""Measure and Stop, the verdict, its map, and its file to save."""

from __future__ import annotations

import json
import os
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from draftscope_app.engine.admission import refuse_long
from draftscope_app.engine.answers import Answer, Part
from draftscope_app.engine.jobs import AdviseJob
from draftscope_app.page import notes
from draftscope_app.page.advice import view, wanted
from draftscope_app.page.advice.form import UNDECIDED, AdviceForm, VerdictCard
from draftscope_app.page.shared import PRIVATE, Shared
from draftscope_app.page.tasks.task import TaskListeners, Values
from draftscope_app.reports.advice_map import drawn, what_if
from draftscope_app.reports.advice_page import page

FILE = "draftscope-advice.html"


class AdviceListeners:
    """The task, and what is drawn of its answer."""

    kind = "advise"

    def __init__(self, shared: Shared, form: AdviceForm, card: VerdictCard) -> None:
        self.shared, self.form, self.card = shared, form, card

    def attach(self, resumed: Any) -> None:
        form, card = self.form, self.card
        outputs = [form.progress, form.measure, form.stop, card.answer, card.save, card.report, card.map.group]
        drawn_to = [card.map.plot, card.map.note, card.map.group]
        drafters = form.fields["drafters"]
        assert isinstance(drafters, gr.Dropdown)
        drafters.focus(self.drafters, None, drafters, queue=False, **PRIVATE)
        listeners = TaskListeners(self.shared, self)
        for begun in listeners.attach(form.measure.click, set(form.fields.values()), outputs, resumed):
            begun.then(self.draw, [card.report, *card.map.inputs], drawn_to, **PRIVATE)
        for control in card.map.inputs:
            changed = control.release if isinstance(control, gr.Slider) else control.change
            changed(
                self.draw, [card.report, *card.map.inputs], drawn_to, preprocess=False, trigger_mode="always_last",
                **PRIVATE,
            )  # fmt: skip
        form.stop.click(self.shared.stop, None, None, queue=False, **PRIVATE)

    def drafters(self) -> Any:
        """Those that are loaded now."""
        return gr.update(choices=wanted.offered(self.shared.admission.engine.status.drafters))

    def draw(self, report: view.Report | None, which: Any, alpha: Any, draft_cost: Any, machine: Any) -> list[Any]:
        """The map as the sliders say; it is shown once there is something on it."""
        if not report:
            return [gr.skip(), gr.skip(), gr.skip()]
        changes = what_if(wanted.alpha_override(alpha), wanted.draft_cost_factor(draft_cost), str(machine))
        figure, note = drawn(report, str(which), changes)
        return [figure, notes.muted(note), gr.update(visible=True)]

    def job(self, values: Values, _: Any, __: str | None) -> AdviseJob:
        admission = self.shared.admission
        given = {name: values[widget] for name, widget in self.form.fields.items()}
        refuse_long(given, admission.limits.max_text)
        status = admission.engine.status
        return wanted.job(given, status.drafters, admission.limits, status.chat)

    def show(self, answer: Answer, part: Part) -> list[Any]:
        """Progress, and at the end the answer, or why there is none."""
        events = [json.loads(line) for line in answer.lines]
        if not answer.over:
            note = notes.muted(answer.note) if answer.note else ""
            return self._shown(_progress(part) + note, view.partial(events), running=True)
        if report := events[-1].get("report") if events else None:
            return self._shown(view.measured(report), view.answer(report), answer=(report, _saved(report)))
        return self._shown(notes.refused(str(answer.note)) if answer.refused else view.stopped(), UNDECIDED)

    def refuse(self, sentence: str) -> list[Any]:
        """The last verdict stays."""
        return [notes.refused(sentence), *[gr.skip()] * 6]

    def _shown(
        self, progress: str, verdict: str, running: bool = False, answer: tuple[view.Report, str] | None = None
    ) -> list[Any]:
        """Both stages. The map of the last answer goes, and its report, until there is another one."""
        report, file = answer or (None, None)
        save = gr.update(value=file, visible=file is not None)
        buttons = [gr.update(interactive=not running), gr.update(interactive=running)]
        return [progress, *buttons, verdict, save, report, gr.update(visible=False)]


def _progress(part: Part) -> str:
    if part.standing in ("queued", "waiting"):
        return view.waiting(part.place)
    words = escape(f"Measuring {part.measuring}".rstrip())
    return notes.progress(f"{words}.", part.progress.share or None if part.progress else None)


def _saved(report: view.Report) -> str:
    """The report's page as a file, which the server deletes after a while."""
    path = Path(tempfile.mkdtemp(dir=os.environ.get("GRADIO_TEMP_DIR"))) / FILE
    path.write_text(page(report), encoding="utf-8")
    return str(path)
