"""The core's tests, which `make test-core` runs, and whatever of tests/ they import know no door: whoever reads the
core needs none of them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHARED = ("tests/support", "tests/programs")  # of which the core's tests reach only what they import
NAME = re.compile(r"\w+(\.\w+)+")  # of a module or something in it


def core_folders() -> list[str]:
    """As the Makefile names them."""
    found = re.search(r"^CORE := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1].split()


def doors() -> tuple[str, ...]:
    """The packages of the engine above the library's face, the doors and the lab of the app, and the tests that are not
    the core's."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract.get("containers") == ["draftscope"])
    above = [room for layer in layers[: layers.index("api")] for room in layer.split(" | ")]
    app = [file.parent.name for file in (ROOT / "app/draftscope_app/doors").glob("*/__init__.py")]
    folders = [file.parent.relative_to(ROOT) for file in (ROOT / "tests").glob("*/__init__.py")]
    others = [folder for folder in folders if folder.as_posix() not in (*core_folders(), *SHARED)]
    return (
        *(f"draftscope.{room}" for room in above),
        *(f"draftscope_app.doors.{door}" for door in app),
        "draftscope_app.lab",
        *(".".join(folder.parts) for folder in others),
    )


def names(file: Path) -> Iterator[tuple[int, str]]:
    """Line by line: what a file imports anywhere, and what it names in a string, as tests do to replace a part."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{name.name}") for name in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
            yield node.lineno, node.value


def reached(first: Iterable[Path]) -> Iterator[Path]:
    """These files, and those of tests/ that they import, and so on."""
    waiting, seen = [*first], set[Path]()
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            yield file
            waiting += [other for _, name in names(file) if (other := file_of(name)) is not None]


def file_of(name: str) -> Path | None:
    """The file of tests/ that this is, or is in."""
    parts = name.split(".")
    files = (ROOT.joinpath(*parts[:length]).with_suffix(".py") for length in range(len(parts), 1, -1))
    return next((file for file in files if file.exists()), None) if parts[0] == "tests" else None


def fixtures() -> list[Path]:
    """The files that tests/conftest.py makes known to every test."""
    tree = ast.parse((ROOT / "tests/conftest.py").read_text(encoding="utf-8"))
    words = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [file for word in words if (file := ROOT / "tests/support" / f"{word}.py").exists()]


def imports_of_doors(files: Iterable[Path]) -> list[str]:
    """File, line and module of each."""
    rooms = doors()
    return sorted(
        f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file.name}:{line} {name}"
        for file in reached(files)
        for line, name in names(file)
        if any(name == room or name.startswith(f"{room}.") for room in rooms)
    )


def test_the_cores_tests_know_no_door() -> None:
    """A test about a door stands in that door's folder; one that needs some task takes a made-up one."""
    files = [file for folder in core_folders() for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 100 and {file.stem for file in fixtures()} >= {"models", "pages", "processes"}
    assert imports_of_doors([*files, ROOT / "tests/conftest.py", *fixtures()]) == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from draftscope.advise.question import Asked", "draftscope.advise.question.Asked"),
        ("import draftscope.servers.field", "draftscope.servers.field"),
        ("def test():\n    from draftscope_app.doors.learn import classroom", "draftscope_app.doors.learn.classroom"),
        ("from draftscope_app.lab.space import entry", "draftscope_app.lab.space.entry"),
        ("from tests.doors.servers.stubs import stub", "tests.doors.servers.stubs.stub"),
        ("patch.setattr('draftscope.train.family.train', None)", "draftscope.train.family.train"),
    ],
)
def test_a_test_that_knows_a_door_is_named_with_the_line(tmp_path: Path, line: str, name: str) -> None:
    file = tmp_path / "test_made_up.py"
    file.write_text(
        f"{line}\nfrom draftscope_app.doors.door import tasks\nfrom draftscope.measure.check import check\n"
    )
    assert f"test_made_up.py:{line.count(chr(10)) + 1} {name}" in imports_of_doors([file])
    assert not [found for found in imports_of_doors([file]) if "measure" in found or "doors.door" in found]


def test_a_door_is_seen_through_a_file_that_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "test_made_up.py"
    file.write_text("from tests.generated_tables import TABLES\n")
    assert any(found.startswith("tests/generated_tables.py:") for found in imports_of_doors([file]))
