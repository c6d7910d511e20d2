"""The estimate for the model on Watch; the instrument draws it, from the run that it has."""

from __future__ import annotations

from draftscope_app.doors.decide.page import HERE
from draftscope_app.page import notes
from draftscope_app.page.task import TaskPage


class Page(TaskPage):
    def lay_out(self, area: str) -> None:
        if area == HERE:
            value = '<section class="ds-calculator" aria-label="Estimate"></section>'
            notes.html(value, "ds-calculator", js="Draftscope.repaint();")
