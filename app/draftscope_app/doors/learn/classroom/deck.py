"""The questions of a class, in order: those of the shipped lessons, or a teacher's own file.

A deck is JSON: `{"title": ..., "steps": [...]}`. A step is a question made from a recorded run, such as
`{"run": "mine.jsonl.gz", "kind": "survive", "lane": "speculative", "nth": 2}`, or one in full: `{"ask", "options",
"truth", "said"}`. A run is a file beside the deck or the name of a lesson's recording.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from draftscope.base.admit import admit
from draftscope.base.assets import assets
from draftscope.base.common_settings import LISTS
from draftscope.base.errors import DraftscopeError, reason
from draftscope.trace import files
from draftscope_app.doors.learn.classroom.making import make_question
from draftscope_app.doors.learn.classroom.questions import Question, Spec
from draftscope_app.doors.learn.classroom.recorded_lanes import Lane, lanes_of

SHIPPED = Path(__file__).with_name("deck.json")
STEPS_MOST = 100


class FromRun(Spec):
    """A question about a recorded run."""

    run: str


Step = Annotated[
    Annotated[FromRun, Tag("run")] | Annotated[Question, Tag("ask")],
    Discriminator(lambda step: "run" if isinstance(step, dict) and "run" in step else "ask"),
]


class DeckFile(BaseModel):
    """What a file holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = Field(max_length=80)
    steps: tuple[Step, ...] = Field(min_length=1, max_length=STEPS_MOST)


class Deck(BaseModel):
    """Questions that are ready to be asked."""

    model_config = ConfigDict(frozen=True)

    title: str
    questions: tuple[Question, ...]


@cache
def shipped() -> Deck:
    """A question or more for each lesson."""
    return read(SHIPPED)


def read(path: Path) -> Deck:
    """The deck in that file. Raises `DraftscopeError`, which names the step, for one that cannot be asked."""
    try:
        deck = DeckFile.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise DraftscopeError(f"'{path}' cannot be read ({error.strerror}); name a deck of questions.") from None
    except ValidationError as error:
        raise DraftscopeError(f"'{path}', {_first_problem(error)}; mend that entry.") from None
    except ValueError as error:
        raise DraftscopeError(f"'{path}' is not JSON ({reason(error)}); app/CLASS.md has an example.") from None
    runs: dict[str, dict[str, Lane]] = {}
    questions = []
    for number, step in enumerate(deck.steps, 1):
        try:
            question = step if isinstance(step, Question) else _question_of(step, path.parent, runs)
            questions.append(check_question(question))
        except DraftscopeError as error:
            raise DraftscopeError(f"'{path}', step {number}: {error}") from None
    return Deck(title=deck.title, questions=tuple(questions))


def _first_problem(error: ValidationError) -> str:
    """'title: should be ...', or 'step 2: options: should have ...'; steps are counted from 1."""
    first = error.errors()[0]
    said = LISTS.get(first["type"], "").format(**first.get("ctx", {})) or first["msg"].removeprefix("Input ")
    match first["loc"]:
        case ("steps", int(number), _, *names):
            return ": ".join([f"step {number + 1}", *map(str, names), said])
        case names:
            return ": ".join([*map(str, names), said])


def _question_of(step: FromRun, folder: Path, runs: dict[str, dict[str, Lane]]) -> Question:
    if step.run not in runs:
        lesson = assets() / "lessons" / f"{step.run}.jsonl.gz"
        is_lesson = "/" not in step.run and lesson.exists()
        runs[step.run] = lanes_of(files.read(lesson if is_lesson else folder / step.run).events)
    return make_question(step, runs[step.run])


def check_question(question: Question) -> Question:
    """The question. Raises `DraftscopeError` where none of its options is the answer, or its texts cannot be sent."""
    if not 0 <= question.truth < len(question.options):
        raise DraftscopeError(
            f"truth = {question.truth}: there are {len(question.options)} options; count them from 0."
        )
    admit({f"The question '{question.ask}'": json.dumps(question.model_dump(), ensure_ascii=False)})
    return question


def as_json(deck: Deck) -> list[dict[str, Any]]:
    """The questions without their answers, for a list to choose from."""
    return [{"lesson": question.lesson, "ask": question.ask} for question in deck.questions]
