"""What phones see of a lesson: the steps that its presenter has shown, in a form for a narrow screen."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope_app.doors.learn.classroom.questions import OPTIONS_MOST, SHORT, TEXT_MOST, Bar, Guess

RECORDED = assets() / "lessons" / "class.json"  # by tests/programs/record_steps.py
STEPS_MOST = 40  # of a lesson
PARTS_MOST = 4 * OPTIONS_MOST  # guesses, bars or rows of a picture


class LessonStep(BaseModel):
    """One step: its words, and its picture as guesses, bars or a table's rows, of which the first is the head."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = SHORT
    at: int = Field(ge=0, lt=STEPS_MOST)
    of: int = Field(ge=1, le=STEPS_MOST)
    words: str = Field(max_length=4 * TEXT_MOST)
    guesses: tuple[Guess, ...] = Field((), max_length=PARTS_MOST)
    bars: tuple[Bar, ...] = Field((), max_length=PARTS_MOST)
    rows: tuple[tuple[str, ...], ...] = Field((), max_length=PARTS_MOST)


@cache
def recorded() -> list[list[dict[str, Any]]]:
    """The steps of every lesson, for phones that wander."""
    steps: list[list[dict[str, Any]]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return steps


class Shown:
    """The steps of one lesson that were shown, and which one the presenter is at. Later ones would tell the answers."""

    def __init__(self) -> None:
        self._steps: dict[int, LessonStep] = {}
        self._at = 0

    def show(self, step: LessonStep) -> None:
        """The presenter is at this step; another lesson takes the place of the one before."""
        if any(other.title != step.title for other in self._steps.values()):
            self._steps.clear()
        self._steps[step.at] = step
        self._at = step.at

    def present(self) -> dict[str, Any]:
        return self._steps[self._at].model_dump()

    def other(self, number: int) -> list[dict[str, Any]]:
        """The steps of another lesson; of the class's own only those that were shown."""
        if not 1 <= number <= len(recorded()):
            raise DraftscopeError(f"number = {number}: there are lessons 1 to {len(recorded())}.")
        steps = recorded()[number - 1]
        return self.earlier() if steps[0]["title"] == self._steps[self._at].title else steps

    def earlier(self) -> list[dict[str, Any]]:
        """All steps that were shown, in order, for a phone that wanders."""
        return [self._steps[at].model_dump() for at in sorted(self._steps)]
