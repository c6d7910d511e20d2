"""Decide: what is asked on the left, what was found on the right."""

from __future__ import annotations

from collections.abc import Sequence

import gradio as gr

from draftscope_app.page import notes
from draftscope_app.page.layout import Part

QUESTION, VERDICT, EVIDENCE = "question", "verdict", "evidence"  # areas of this door
TITLE = '<h2 class="ds-stage">Evidence</h2>'


def lay_out(tasks: Sequence[Part]) -> None:
    with gr.Row(elem_id="ds-decide"):
        with gr.Column(min_width=320):
            _area(tasks, QUESTION)
        with gr.Column(min_width=320):
            _area(tasks, VERDICT)
            notes.html(TITLE)
            _area(tasks, EVIDENCE)


def _area(tasks: Sequence[Part], name: str) -> None:
    for task in tasks:
        task.lay_out(name)
