"""The estimate for the model on Watch; the instrument draws it, from the run that it has."""

from __future__ import annotations

from markupsafe import Markup

from draftscope_app.doors.decide.page import HERE
from draftscope_app.page import notes
from draftscope_app.page.task import TaskPage

PLACE = Markup('<section class="ds-calculator" aria-label="Estimate"></section>')


class Page(TaskPage):
    @classmethod
    def still(cls) -> Markup:
        return Markup('<div id="ds-calculator">{}</div>').format(PLACE)

    def lay_out(self, area: str) -> None:
        if area == HERE:
            notes.html(PLACE, "ds-calculator", js="Draftscope.repaint();")
