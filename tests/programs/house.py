"""Counts what a stranger has to carry, and fails when that has grown: `python -m tests.programs.house --help`.

The figures of the commit are in house.json beside this file. `make house SAVE=1` saves those of the working tree: after
lines were taken out, and where they grew for a good reason.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, Field

ROOT = Path(__file__).parents[2]
SAVED = Path(__file__).with_name("house.json")
# Names that say nothing, and beginnings of names of limits, which are max_ and min_.
FORBIDDEN = ("own", "told", "alone", "found", "each", "asked", "also", "row_bits", "most_", "least_")
ESLINT = ROOT / "tests/javascript/node_modules/eslint/bin/eslint.js"
ELSEWHERE = {"node_modules", "vendor", "__pycache__"}  # not written here


class House(BaseModel, extra="forbid"):
    """The figures. All are better when they are smaller."""

    source_lines: int = Field(description="engine, app and assets/instrument: Python, JavaScript, CSS, HTML")
    test_lines: int = Field(description="tests without tests/programs")
    program_lines: int = Field(description="tests/programs: what only developers run")
    python_modules: int = Field(description="of engine and app")
    javascript_modules: int = Field(description="of assets/instrument")
    duplicate_classes: dict[str, int] = Field(description="classes of the engine, by a name that several have")
    forbidden_names: dict[str, int] = Field(description="definitions in Python, uses in JavaScript")

    def counts(self) -> Iterator[tuple[str, int]]:
        """Every figure by its name; those by a class or a word one by one."""
        for figure, value in self:
            if isinstance(value, dict):
                yield from ((f"{figure} {key!r}", count) for key, count in value.items())
            else:
                yield figure, value


def count_house(root: Path = ROOT) -> House:
    """The figures of the working tree at `root`."""
    source = [path for room in ("engine", "app", "assets/instrument") for path in files(root / room)]
    programs = files(root / "tests/programs")
    tests = [path for path in files(root / "tests") if path not in programs]
    python = [path for path in source if path.suffix == ".py"]
    engine = [path for path in python if path.is_relative_to(root / "engine")]
    names = count_python_names(python) + count_javascript_names(root)
    return House(
        source_lines=count_lines(source),
        test_lines=count_lines(tests),
        program_lines=count_lines(programs),
        python_modules=len(python),
        javascript_modules=sum(path.suffix == ".js" for path in source),
        duplicate_classes=count_duplicate_classes(engine),
        forbidden_names={word: count_forbidden(word, names) for word in FORBIDDEN},
    )


def files(folder: Path) -> list[Path]:
    """The source files below a folder, without packages of others."""
    paths = (path for path in folder.rglob("*") if path.suffix in {".py", ".js", ".css", ".html"} and path.is_file())
    return sorted(path for path in paths if ELSEWHERE.isdisjoint(path.relative_to(folder).parts))


def count_lines(paths: Iterable[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def count_duplicate_classes(paths: Iterable[Path]) -> dict[str, int]:
    """How many classes there are of each name that more than one has."""
    classes = (node.name for path in paths for node in nodes(path) if isinstance(node, ast.ClassDef))
    return {name: count for name, count in sorted(Counter(classes).items()) if count > 1}


def count_python_names(paths: Iterable[Path]) -> Counter[str]:
    """How often each forbidden name is given to a function, class, argument, variable, attribute, import or module."""
    paths = list(paths)
    names = Counter(path.stem for path in paths)
    names.update(name for path in paths for node in nodes(path) if (name := defined_name(node)) is not None)
    return names


def count_forbidden(word: str, names: Counter[str]) -> int:
    """How often a name is given, or any that begins so if the word ends in an underscore."""
    if not word.endswith("_"):
        return names[word]
    return sum(count for name, count in names.items() if name.lower().startswith(word))


def defined_name(node: ast.AST) -> str | None:
    """The name that this node of a syntax tree defines, if any."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.arg(arg=name) | ast.alias(asname=str(name)) | ast.MatchAs(name=str(name)):
            return name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
    return None


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text("utf-8"), str(path)))


def count_javascript_names(root: Path) -> Counter[str]:
    """How often eslint finds each forbidden name in the instrument."""
    command = [
        *(str(Path(sys.executable).with_name("node")), str(ESLINT), "--no-config-lookup", "--format", "json"),
        *("--rule", json.dumps({"id-denylist": ["error", *FORBIDDEN]})),
        *("--ignore-pattern", "**/vendor/**", "assets/instrument"),
    ]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if answer.returncode not in (0, 1):  # 1: names were found
        raise SystemExit(f"eslint failed: {answer.stderr.strip()}")
    messages = [message["message"] for file in json.loads(answer.stdout) for message in file["messages"]]
    return Counter(name for name in FORBIDDEN for message in messages if f"'{name}'" in message)


def grown(saved: House, now: House) -> list[str]:
    """A sentence for each figure that is larger than the saved one."""
    before = dict(saved.counts())
    return [
        f"{figure} has grown from {before.get(figure, 0):,} to {count:,}."
        for figure, count in now.counts()
        if count > before.get(figure, 0)
    ]


def main(arguments: list[str] | None = None) -> int:
    """Prints the figures. 1 where one has grown, 0 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.house", description=__doc__)
    parser.add_argument("--save", action="store_true", help="save the figures of the working tree")
    options = parser.parse_args(arguments)
    now = count_house()
    if options.save:
        SAVED.write_text(now.model_dump_json(indent=2) + "\n", "utf-8")
    saved = House.model_validate_json(SAVED.read_text("utf-8"))
    before = dict(saved.counts())
    for figure, count in now.counts():
        print(f"{figure:<34}{count:>8,}  saved: {before.get(figure, 0):,}")
    if worse := grown(saved, now):
        print(*worse, "Take it out again, or save the new figures with: make house SAVE=1", sep="\n", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
