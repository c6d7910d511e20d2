"""Lessons without a server: the player as the page hosts it, over a run, in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from unittest import mock

from draftscope.trace import html
from draftscope.trace.events import AnyEvent
from draftscope.trace.glossary import GLOSSARY
from draftscope_app.serve.doors import page_doors

HOST = """<script>(() => {
    const runs = RUNS;
    let asked = 0;
    const lesson = async (name) => (await Inside.unpacked(runs[name])).replace("{", `{"asked": ${asked++}, `);
    Draftscope.connect({ events: [], trigger: () => {}, server: { lesson } });
})();</script>"""


def lessons_page(path: Path, own: list[AnyEvent], told: Mapping[str, str]) -> Path:
    """Writes the file. `told`: what the server would answer, by the name of a lesson's recording."""
    packed = {name: html.packed(answer) for name, answer in told.items()}
    doors = page_doors()
    cards = {mount: folder for door in doors for mount, folder in door.cards.items()}
    metrics = {entry.name: entry.meaning for entry in GLOSSARY}
    sentences = {door.name: door.sentence for door in doors}
    handed = {name: value for door in doors for task in door.tasks for name, value in task.hand_over().items()}
    values = handed | {"lessonNames": list(told), "metrics": metrics, "doors": sentences}
    script = partial(html.script, cards, **values)
    with mock.patch.object(html, "script", script):
        page = html.page(own)
    path.write_text(page.replace("</body>", HOST.replace("RUNS", json.dumps(packed)) + "</body>"), encoding="utf-8")
    return path
