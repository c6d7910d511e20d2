"""What an exercise is, and what is said of a student's function."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from draftscope.grade.student_process import Call

Asked: TypeAlias = Callable[[str, Sequence[Call]], list[Any]]  # function, calls -> results


@dataclass(frozen=True)
class Verdict:
    """`sentence` says what is wrong, with a counter-example; `mistake` names it if it is a known one."""

    exercise: str
    right: bool
    sentence: str
    mistake: str = ""


class Exercise(ABC):
    """One function that a student writes, or two that belong together."""

    name: ClassVar[str]  # of its starter file
    title: ClassVar[str]
    functions: ClassVar[tuple[str, ...]]
    task: ClassVar[str]  # what to write, as Markdown
    starter: ClassVar[str]  # the functions without their bodies
    helpers: ClassVar[tuple[Callable[..., Any], ...]] = ()  # that the starter file has
    mistakes: ClassVar[Mapping[str, str]]  # the usual ones: name -> what it is, for teachers

    @abstractmethod
    def judge(self, ask: Asked, chance: random.Random) -> Verdict:
        """What is right or wrong; `chance` chooses among equivalent tasks. Raises `FailedError` with a verdict."""


def written(law: Sequence[Fraction]) -> str:
    """A distribution as one writes it: (1/2, 1/2)."""
    return f"({', '.join(map(str, law))})"


def floats(law: Sequence[Fraction]) -> list[float]:
    return [float(share) for share in law]
