"""What the card of the lessons asks the server; anybody may send anything."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from draftscope_app.doors.learn.lessons import page as lessons
from draftscope_app.engine.admission import UNREADABLE


def call(sent: Any) -> Any:
    shared: Any = None  # of no visitor is anything asked
    (lesson,) = lessons.Page(shared).functions()
    assert lesson.__name__ == "lesson"
    return json.loads(asyncio.run(lesson(sent)))


@pytest.mark.parametrize(
    "sent",
    [None, 5, "trace", [], {}, {"kind": "trace"}, {"kind": "x", "lesson": ""}, {"kind": "trace", "lesson": 5},
     {"kind": "trace", "lesson": "../first"}, {"kind": "trace", "lesson": "", "path": "/etc/passwd"}, "../first"],
)  # fmt: skip
def test_what_cannot_be_read_is_one_sentence(sent: Any) -> None:
    answer = call(sent)
    assert answer["note"].endswith("reload the page.") or answer["note"] == UNREADABLE
    assert "data" not in answer


def test_a_lesson_is_its_recorded_run() -> None:
    name = lessons.names()[0]
    answer = call(name)
    assert answer["lesson"] == name and answer["ev"][0]["kind"] == "run_start"
