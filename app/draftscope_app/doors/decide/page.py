"""Decide, below the forecast: the loaded model and the measurement side by side, then what was found, then evidence."""

from __future__ import annotations

from collections.abc import Sequence

import gradio as gr

from draftscope_app.page import notes
from draftscope_app.page.layout import Part

HERE, MEASURE, FOUND, EVIDENCE = "here", "measure", "found", "evidence"  # areas of this door
TITLE = '<h2 class="ds-stage">Evidence</h2>'


def lay_out(tasks: Sequence[Part]) -> None:
    with gr.Column(elem_id="ds-decide"):
        with gr.Row(elem_id="ds-decide-here"):
            for area in (HERE, MEASURE):
                with gr.Column(min_width=320):
                    _area(tasks, area)
        _area(tasks, FOUND)
        notes.html(TITLE)
        _area(tasks, EVIDENCE)


def _area(tasks: Sequence[Part], name: str) -> None:
    for task in tasks:
        task.lay_out(name)
