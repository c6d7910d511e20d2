"""Counts lines by door, and fails on names that say nothing or not where: `python -m tests.programs.house --help`.

A feature may grow the house; a name may not be worse than those that are there. The names of the commit are in
house.json beside this file; `make house SAVE=1` saves those of the working tree.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, Field

ROOT = Path(__file__).parents[2]
SAVED = Path(__file__).with_name("house.json")
# Names that say nothing, and beginnings of names of limits, which are max_ and min_.
FORBIDDEN = ("own", "told", "alone", "found", "each", "asked", "also", "row_bits", "most_", "least_")
ESLINT = ROOT / "tests/javascript/node_modules/eslint/bin/eslint.js"
# Names that files share because each folder has its own: those of a task (doors/door.py), and a room's style.
TASK_FILES = {
    "task.py",
    "job.py",
    "page.py",
    "command.py",
    "server.py",
    "report.py",
    "variables.py",
    "card.js",
    "card.css",
    "page.css",
}
SHARED = TASK_FILES | {"__init__.py", "style.css"}
ELSEWHERE = {"node_modules", "vendor", "__pycache__"}  # not written here
ENGINE, APP, INSTRUMENT = "engine/draftscope", "app/draftscope_app", "assets/instrument"
ROOMS: Mapping[str, tuple[str, ...]] = {  # the part of the house -> its folders; what is in none is the core
    "measure": (f"{ENGINE}/measure",),
    "decide": (f"{ENGINE}/advise", f"{ENGINE}/forecast", f"{ENGINE}/claims", f"{APP}/doors/decide"),
    "servers": (f"{ENGINE}/servers", f"{ENGINE}/log", "engine/inside", f"{APP}/doors/servers", f"{INSTRUMENT}/servers"),
    "learn": (f"{ENGINE}/grade", f"{APP}/doors/learn"),
    "lab": (f"{ENGINE}/train", f"{APP}/lab"),
}


class Names(BaseModel, extra="forbid"):
    """Names that several classes have, and names that say nothing: none may become more."""

    duplicate_classes: dict[str, int] = Field(description="classes of the engine, by a name that several have")
    duplicate_files: dict[str, int] = Field(description="source files, by a name that several have")
    forbidden_names: dict[str, int] = Field(description="definitions in Python, uses in JavaScript")

    def counts(self) -> Iterator[tuple[str, int]]:
        """Every figure by its name, one by one."""
        for figure, values in self:
            yield from ((f"{figure} {key!r}", count) for key, count in values.items())


def lines_by_room(root: Path = ROOT) -> dict[str, int]:
    """Lines of source by part of the house, then those of the tests and of what only developers run."""
    source = [path for folder in ("engine", "app", INSTRUMENT) for path in files(root / folder)]
    lines = {room: [path for path in source if _in(path, root, folders)] for room, folders in ROOMS.items()}
    core = [path for path in source if not any(_in(path, root, folders) for folders in ROOMS.values())]
    programs = files(root / "tests/programs")
    tests = [path for path in files(root / "tests") if path not in programs]
    parts = {"core": core, **lines, "tests": tests, "programs": programs}
    return {name: count_lines(paths) for name, paths in parts.items()}


def _in(path: Path, root: Path, folders: Iterable[str]) -> bool:
    return any(path.is_relative_to(root / folder) for folder in folders)


def count_names(root: Path = ROOT) -> Names:
    """Those of the working tree at `root`."""
    python = [path for room in ("engine", "app") for path in files(root / room) if path.suffix == ".py"]
    engine = [path for path in python if path.is_relative_to(root / "engine")]
    source = [path for room in ("engine", "app", INSTRUMENT) for path in files(root / room)]
    names = count_python_names(python) + count_javascript_names(root)
    return Names(
        duplicate_classes=count_duplicate_classes(engine),
        duplicate_files=several(path.name for path in source if path.name not in SHARED),
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
    return several(node.name for path in paths for node in nodes(path) if isinstance(node, ast.ClassDef))


def several(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs that occurs more than once."""
    return {name: count for name, count in sorted(Counter(names).items()) if count > 1}


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
        *(str(folder) for folder in ("app/draftscope_app/doors",) if any((root / folder).rglob("*.js"))),
    ]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if answer.returncode not in (0, 1):  # 1: names were found
        raise SystemExit(f"eslint failed: {answer.stderr.strip()}")
    messages = [message["message"] for file in json.loads(answer.stdout) for message in file["messages"]]
    return Counter(name for name in FORBIDDEN for message in messages if f"'{name}'" in message)


def grown(saved: Names, now: Names) -> list[str]:
    """A sentence for each name that there are more of."""
    before = dict(saved.counts())
    return [
        f"{figure} has grown from {before.get(figure, 0):,} to {count:,}."
        for figure, count in now.counts()
        if count > before.get(figure, 0)
    ]


def main(arguments: list[str] | None = None) -> int:
    """Prints the lines. 1 where a name has grown, 0 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.house", description=__doc__)
    parser.add_argument("--save", action="store_true", help="save the names of the working tree")
    options = parser.parse_args(arguments)
    for name, count in lines_by_room().items():
        print(f"{name:<12}{count:>8,} lines")
    now = count_names()
    if options.save:
        SAVED.write_text(now.model_dump_json(indent=2) + "\n", "utf-8")
    worse = grown(Names.model_validate_json(SAVED.read_text("utf-8")), now)
    if worse:
        print(*worse, "Find a better name, or save the new figures with: make house SAVE=1", sep="\n", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
