"""The first stage of Decide; the instrument draws it, from the run that it has."""

from __future__ import annotations

from markupsafe import Markup

from draftscope_app.doors.decide.page import QUESTION
from draftscope_app.page import notes
from draftscope_app.page.task import TaskPage

PLACE = Markup('<section class="ds-calculator" aria-label="Estimate">{}</section>')


class Page(TaskPage):
    @classmethod
    def still(cls) -> Markup:
        title = Markup('<h2 class="ds-stage">Estimate</h2>')
        return Markup('<div id="ds-calculator">{}</div>').format(PLACE.format(title))

    def lay_out(self, area: str) -> None:
        if area == QUESTION:
            notes.html(PLACE.format(notes.stage(1, "Estimate")), "ds-calculator", js="Draftscope.repaint();")
