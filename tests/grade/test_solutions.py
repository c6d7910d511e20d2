"""Three right and ten wrong solutions, each graded right and each mistake named; and the exercises themselves."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.grade.enumerated import LawExercise, different, fewer, fraction
from draftscope.grade.grade import EXERCISES, grade
from draftscope.grade.grid import law, own_law, thawed
from draftscope.grade.single import PAIRS, Single, single_case
from draftscope.grade.starters import notebook, starter, write_starters
from draftscope_app.cli.exit_codes import ExitCode
from tests.support.command import Cli, command_line

SOLUTIONS = Path(__file__).parent / "solutions"
WRONG = {
    "wrong_target": ("accept", "target instead of residual"),
    "wrong_reused": ("accept", "u reused"),
    "wrong_unnormalised": ("accept", "residual not renormalised"),
    "wrong_greedy": ("accept", "greedy accept"),
    "wrong_top_p": ("chain", "q before top-p"),
    "wrong_bonus": ("chain", "bonus from q"),
    "wrong_dropped": ("chain", "bonus dropped"),
    "wrong_siblings": ("tree", "siblings with replacement"),
    "wrong_rewind": ("rewind", "a row too many"),
    "wrong_end": ("commit", "end of text ignored in the middle of a round"),
}
RIGHT = {
    "right_plain": ["accept", "chain", "tree", "rewind", "commit"],
    "right_numpy": ["accept", "rewind"],
    "right_block": ["chain"],
}
LAWFUL = [exercise for exercise in EXERCISES if isinstance(exercise, LawExercise)]


def named(exercise: object) -> str:
    return str(getattr(exercise, "name", exercise))


def test_every_solution_is_here() -> None:
    assert {path.stem for path in SOLUTIONS.glob("*.py")} == {*WRONG, *RIGHT}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_solution_is_right(name: str) -> None:
    found = grade(SOLUTIONS / f"{name}.py")
    assert [verdict.exercise for verdict in found.verdicts] == RIGHT[name]
    assert found.right, [verdict.sentence for verdict in found.verdicts]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_solution_is_wrong_and_its_mistake_is_named(name: str) -> None:
    (verdict,) = grade(SOLUTIONS / f"{name}.py").verdicts
    assert not verdict.right
    assert (verdict.exercise, verdict.mistake) == WRONG[name], verdict.sentence


def test_the_counter_example_is_one_that_one_can_read() -> None:
    (verdict,) = grade(SOLUTIONS / "wrong_target.py").verdicts
    p, q, came = ("(1/2, 1/2)", "(3/4, 1/4)", "(5/8, 3/8)")
    turned = ("(1/2, 1/2)", "(1/4, 3/4)", "(3/8, 5/8)")  # the tokens may have other names
    sentences = [f"with p = {a} and q = {b} your output is {c}" for a, b, c in ((p, q, came), turned)]
    assert any(sentence in verdict.sentence for sentence in sentences), verdict.sentence


def test_every_student_gets_distributions_of_their_own() -> None:
    calls = {student: str(Single().cases(random.Random(student))) for student in ("anna", "ben", "anna ")}
    assert len(set(calls.values())) == 3
    (verdict,) = grade(SOLUTIONS / "wrong_reused.py", student="ben").verdicts
    assert verdict.mistake == "u reused"


# The exercises.


def counted(exercise: LawExercise, rule: Callable[..., object], arguments: tuple[object, ...]) -> object:
    """The law of one of the rules as a student's is found; a threshold that lies elsewhere is an error."""

    def answered(numbers: Sequence[Sequence[float]]) -> list[object]:
        return [[thawed(rule(*arguments, iter(drawn).__next__))] for drawn in numbers]

    return law(answered, exercise.dims, exercise.cells)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_thresholds_of_every_rule_lie_where_they_are_counted(pair: tuple[str, str]) -> None:
    """Else a law would not be exact: `law` calls each rule at two points of every box."""
    exercise = Single()
    case = single_case(fraction(pair[0]), fraction(pair[1]), random.Random(0))
    for rule in exercise.rules.values():
        for situation in case.situations:
            assert counted(exercise, rule, situation.arguments) == own_law(rule, situation.arguments, exercise.cells)


@pytest.mark.slow
@pytest.mark.parametrize("exercise", LAWFUL[1:], ids=named)
def test_so_do_those_of_the_other_exercises(exercise: LawExercise) -> None:
    for case in exercise.cases(random.Random(2)):
        for situation in case.situations[:1]:
            for rule in exercise.rules.values():
                assert counted(exercise, rule, situation.arguments) == own_law(
                    rule, situation.arguments, exercise.cells
                )


@pytest.mark.parametrize("exercise", LAWFUL, ids=named)
def test_every_mistake_is_wrong_and_like_no_other(exercise: LawExercise) -> None:
    cases = exercise.cases(random.Random(1))
    laws = {name: [exercise.by(name, case) for case in cases] for name in exercise.rules}
    assert not any(different(case, came) for case, came in zip(cases, laws["right"], strict=True))
    for name in exercise.mistakes:
        sentences = [
            different(case, came) or fewer(came, right)
            for case, came, right in zip(cases, laws[name], laws["right"], strict=True)
        ]
        assert any(sentences), name
    assert not [pair for pair in combinations(laws, 2) if laws[pair[0]] == laws[pair[1]]]


def test_every_mistake_is_explained() -> None:
    assert all(set(exercise.rules) - {"right"} == set(exercise.mistakes) for exercise in LAWFUL)
    assert sum(len(exercise.mistakes) for exercise in EXERCISES) >= 30


@pytest.mark.parametrize("exercise", EXERCISES, ids=named)
def test_a_starter_runs_and_is_not_yet_right(exercise: object, tmp_path: Path) -> None:
    path = tmp_path / "start.py"
    path.write_text(starter(exercise))  # type: ignore[arg-type]
    (verdict,) = grade(path).verdicts
    assert not verdict.right and "write me" in verdict.sentence


@pytest.mark.parametrize("exercise", EXERCISES, ids=named)
def test_a_notebook_is_one(exercise: object) -> None:
    """What nbformat 4.5 asks of a notebook, and its code is Python but for the lines that are Jupyter's own."""
    made = notebook(exercise)  # type: ignore[arg-type]
    assert made["nbformat"] == 4 and made["nbformat_minor"] == 5 and set(made) == {
        "cells", "metadata", "nbformat", "nbformat_minor",
    }  # fmt: skip
    ids = [cell["id"] for cell in made["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in made["cells"]:
        code = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | code
        if code:
            ast.parse("".join(line for line in cell["source"] if line[0] not in "%!"))
    json.dumps(made)


# The command.


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys, "grade")


def test_exit_codes(command: Cli, tmp_path: Path) -> None:
    assert command(SOLUTIONS / "right_numpy.py").code == ExitCode.OK
    assert command(SOLUTIONS / "wrong_end.py").code == ExitCode.FAILED
    assert command(SOLUTIONS / "right_numpy.py", "--exercise", "commit").code == ExitCode.FAILED
    (tmp_path / "none.py").write_text("x = 1\n")
    for arguments in (["none"], [tmp_path / "none.py"], [], [SOLUTIONS / "right_numpy.py", "--exercise", "x"]):
        ran = command(*arguments)
        assert ran.code == ExitCode.NOT_DONE and ran.err.count("\n") == 1


def test_json_names_the_mistake(command: Cli) -> None:
    said = command(SOLUTIONS / "wrong_rewind.py", "--json").json
    assert said["right"] is False and said["exercises"][0]["mistake"] == "a row too many" and said["held_back"]


def test_a_missing_function_is_named(command: Cli, tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text("def rewind(cache, drafted, accepted):\n    return cache\n")
    assert "'rewind_state'" in command(tmp_path / "half.py").out


def test_starters_are_written_once(command: Cli, tmp_path: Path) -> None:
    assert command("--starter", tmp_path).code == ExitCode.OK
    assert len(list(tmp_path.glob("*.py"))) == len(list(tmp_path.glob("*.ipynb"))) == 5
    page = (tmp_path / "teacher.md").read_text()
    assert all(f"| {mistake}" in page for exercise in EXERCISES for mistake in exercise.mistakes)
    assert command("--starter", tmp_path).code == ExitCode.NOT_DONE
    with pytest.raises(DraftscopeError, match="is there already"):
        write_starters(tmp_path)
