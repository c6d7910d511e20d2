"""The first stage of Decide; the instrument draws it, from the run that it has."""

from __future__ import annotations

from draftscope_app.doors.decide.page import QUESTION
from draftscope_app.page import notes
from draftscope_app.page.task import TaskPage


class Page(TaskPage):
    def lay_out(self, area: str) -> None:
        if area == QUESTION:
            value = f'<section class="ds-calculator" aria-label="Estimate">{notes.stage(1, "Estimate")}</section>'
            notes.html(value, "ds-calculator", js="Draftscope.repaint();")
