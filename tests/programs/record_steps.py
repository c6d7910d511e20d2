"""Records what phones of a class see of each lesson: python -m tests.programs.record_steps

Plays the lessons in Chromium, and keeps every step in the form that a presenter's page sends to phones.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from draftscope.base.assets import assets
from draftscope.trace import files
from draftscope_app.doors.learn.classroom.shown_lessons import RECORDED, LessonStep
from draftscope_app.doors.learn.lessons import page as lessons
from draftscope_app.page.runs import recorded
from tests.support.alone import Alone
from tests.support.browsers import chromium
from tests.support.school import lessons_page

CATCH = """e => {
    e.caught = [];
    Object.assign(e.cards.view('classroom'), { room: {}, send: (_, step) => e.caught.push(step) });
}"""
ALL = "e => e.cards.view('lessons').all.length"


def steps_of(browser: Any, path: Path) -> list[list[dict[str, Any]]]:
    """The steps of every lesson of a page, as phones get them."""
    page, found = Alone(browser, path), []
    for number in range(1, page.ask(ALL) + 1):
        page.ask(CATCH)
        page.ask(f"e => e.cards.view('lessons').start({number})")
        page.until(f"e => e.cards.view('lessons').lesson === e.cards.view('lessons').all[{number - 1}]")
        for at in range(1, page.ask("e => e.cards.view('lessons').steps.length")):
            page.painted()
            page.ask(f"e => e.cards.view('lessons').go({at})")
        found.append([LessonStep.model_validate(step).model_dump(mode="json") for step in page.ask("e => e.caught")])
        page.ask("e => e.cards.view('lessons').leave()")
    page.close()
    return found


def shipped(path: Path) -> Path:
    """A page with the lessons that are recorded."""
    own = list(files.read(assets() / "traces" / "first.jsonl.gz").events)
    return lessons_page(path, own, {name: lessons.delta_of(name) for name in recorded.names()})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for browser in chromium():
            found = steps_of(browser, shipped(Path(folder) / "run.html"))
    text = ",\n".join(json.dumps(steps, ensure_ascii=False, separators=(",", ":")) for steps in found)
    RECORDED.write_text(f"[{text}]\n", encoding="utf-8")
    print(f"{RECORDED}: {len(found)} lessons, {len(text):,} characters")


if __name__ == "__main__":
    main()
