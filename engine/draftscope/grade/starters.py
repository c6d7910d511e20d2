"""What a course begins with: a starter file and a notebook of each exercise, and a page for the teacher."""

from __future__ import annotations

import json
from collections.abc import Iterator
from inspect import getsource
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError, one_sentence
from draftscope.base.markdown import table
from draftscope.grade.exercise import Exercise
from draftscope.grade.grade import EXERCISES

TYPES = (": Sequence[float]", ": Callable[[], float]", ": list[int]", ": float", " -> list[float]", " -> int")
TEACHER = "teacher.md"


def write_starters(folder: Path) -> list[Path]:
    """Raises `DraftscopeError` rather than overwrite what a student may have written."""
    files = dict(_files())
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise DraftscopeError(f"'{folder / there[0]}' is there already; name a new folder.")
    with one_sentence(f"'{folder}' cannot be written", "choose another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def _files() -> Iterator[tuple[str, str]]:
    for exercise in EXERCISES:
        yield f"{exercise.name}.py", starter(exercise)
        yield f"{exercise.name}.ipynb", json.dumps(notebook(exercise), indent=1) + "\n"
    yield TEACHER, teacher_page()


def starter(exercise: Exercise) -> str:
    """The file that a student completes."""
    head = f'"""{exercise.title}.\n\nGrade it with: draftscope grade {exercise.name}.py\n"""\n'
    return "\n\n".join([head, *map(_helper, exercise.helpers), exercise.starter.strip() + "\n"])


def _helper(function: Any) -> str:
    """Its source without types, which a beginner need not know."""
    source = getsource(function)
    for words in TYPES:
        source = source.replace(words, "")
    return source


def notebook(exercise: Exercise) -> dict[str, Any]:
    """A Jupyter notebook, nbformat 4.5: the task, a cell to complete, which becomes a file, and one that grades it."""
    file = f"{exercise.name}.py"
    cells = [
        ("markdown", f"# {exercise.title}\n\n{exercise.task}"),
        ("code", f"%%writefile {file}\n{starter(exercise)}"),
        ("code", f"!draftscope grade {file}"),
    ]
    made: list[dict[str, Any]] = [
        {"cell_type": kind, "id": f"{exercise.name}-{place}", "metadata": {}, "source": text.splitlines(keepends=True)}
        | ({"execution_count": None, "outputs": []} if kind == "code" else {})
        for place, (kind, text) in enumerate(cells)
    ]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def teacher_page() -> str:
    """One page: what is asked, what is recognised, and how a course's CI runs it."""
    parts = [
        "# Five exercises on speculative decoding",
        "A student completes a starter file (or its notebook); `draftscope grade FILE.py` says whether it is right. "
        "The law of a function's output is enumerated exactly over small distributions, so that a grade never depends "
        "on luck, and a wrong rule is shown by a counter-example, such as *with p = (1/2, 1/2) and q = (3/4, 1/4) your "
        "output is (5/8, 3/8)*. No model, no GPU and no network are needed.",
        "## In a course's CI",
        '    draftscope grade work.py --exercise accept --exercise chain --student "$USER" --json',
        "The exit code is 0 where all is right, 1 where something is not, 2 where nothing could be graded. "
        "`--exercise` names what must be in the file; `--student` gives each student distributions of their own. The "
        "file runs in a process of its own, which knows nothing of what is expected; `held_back` of the JSON says what "
        "it was kept from on your machine. It can read files everywhere, and only Linux with x86-64 keeps it from "
        "other processes and networks: elsewhere grade in a container.",
        "## What is asked, and which mistakes are recognised",
    ]
    for exercise in EXERCISES:
        parts += [f"### {exercise.title} (`{exercise.name}.py`)", exercise.task]
        parts.append(table(("mistake", "what it is"), list(exercise.mistakes.items())))
    parts += [
        "## What to talk about",
        "- Why is drawing from the target after a rejection wrong, though every token then comes from the target?\n"
        "- *Never accepts*, *bonus dropped* and *only the first sibling* are exact. What do they cost?\n"
        "- At temperature 0 all of these rules agree. Which mistakes can be seen there?",
    ]
    return "\n\n".join(parts) + "\n"
