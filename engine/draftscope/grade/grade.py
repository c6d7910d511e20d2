"""Grades a file: every exercise whose functions it has, or those that were named."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from draftscope.base.errors import DraftscopeError, read_bytes
from draftscope.grade.chain import Chain
from draftscope.grade.commit import Commit
from draftscope.grade.exercise import Exercise, Verdict
from draftscope.grade.grid import FailedError
from draftscope.grade.rewind import Rewind
from draftscope.grade.siblings import Siblings
from draftscope.grade.single import Single
from draftscope.grade.student_process import BrokenError, StudentProcess

EXERCISES: tuple[Exercise, ...] = (Single(), Chain(), Siblings(), Rewind(), Commit())
MAX_SOURCE = 1 << 20  # bytes
MISSING = "The file has no function '{}'."


@dataclass(frozen=True)
class Graded:
    """The verdicts of a file, and what its process was kept from."""

    verdicts: tuple[Verdict, ...]
    held: tuple[str, ...]

    @property
    def right(self) -> bool:
        return all(verdict.right for verdict in self.verdicts)


def grade(path: Path, wanted: Sequence[str] = (), student: str = "") -> Graded:
    """`wanted` names exercises that must be there; by default those that are. `student` chooses the distributions.

    Raises `DraftscopeError` for a file that cannot be read, an unknown exercise, or a file without any.
    """
    exercises = [find(name) for name in wanted] or list(EXERCISES)
    content = read_bytes(path, "The file")
    if len(content) > MAX_SOURCE:
        raise DraftscopeError(f"'{path}' has more than {MAX_SOURCE >> 20} MiB, which no exercise takes; give another.")
    source = content.decode("utf-8", "replace")
    functions = [function for exercise in exercises for function in exercise.functions]
    try:
        with StudentProcess(source, path.name, functions) as process:
            there = [item for item in exercises if wanted or set(item.functions) & set(process.functions)]
            held = tuple(process.held)
    except BrokenError as error:
        return Graded(tuple(Verdict(item.name, False, str(error)) for item in exercises if wanted or error), ())
    if not there:
        raise DraftscopeError(f"'{path}' has none of the functions {', '.join(functions)}; --starter DIR writes files.")
    return Graded(tuple(_judged(item, source, path.name, student) for item in there), held)


def find(name: str) -> Exercise:
    """Raises `DraftscopeError` for an unknown exercise."""
    known = {exercise.name: exercise for exercise in EXERCISES}
    if name not in known:
        raise DraftscopeError(f"--exercise {name}: choose {', '.join(known)}.")
    return known[name]


def _judged(exercise: Exercise, source: str, name: str, student: str) -> Verdict:
    """In a process of its own, so that no exercise can spoil another."""
    seed = hashlib.sha256(f"{exercise.name}/{student}".encode()).digest()
    try:
        with StudentProcess(source, name, exercise.functions) as process:
            missing = [function for function in exercise.functions if function not in process.functions]
            if missing:
                return Verdict(exercise.name, False, MISSING.format(missing[0]))
            return exercise.judge(process.calls, random.Random(seed))
    except (FailedError, BrokenError) as error:
        sentence = str(error).rstrip(".")
        return Verdict(exercise.name, False, f"{sentence[:1].upper()}{sentence[1:]}.")
