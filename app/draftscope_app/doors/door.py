"""Every extension point of the app: what a door is, what a task is, and of which files a task is made.

A door is a folder beside this file, whose package says `DOOR = Door(...)`. A task is a folder of a door, whose
`task.py` says `TASK = Task(...)`. The core (command line, server, page, instrument) asks for `doors()` and goes through
them; it knows none of their names, and a folder that is deleted is a task less. Of these files a task has those that it
needs:

| file           | what is in it                                                                                  |
|----------------|------------------------------------------------------------------------------------------------|
| `task.py`      | `TASK`: the title, and the command as `draftscope --help` lists it; imports nothing heavy      |
| `job.py`       | what a visitor asks of the engine, a `Job` whose `work(engine, watch)` is a generator          |
| `page.py`      | `Page`, a `TaskPage`: its components on the page, their listeners, what the instrument may ask |
| `page.css`     | the style of those components, which stand outside the instrument                              |
| `command.py`   | the command's function, which has the command's name, or a Typer `app` of several commands     |
| `variables.py` | `Variables`: what it reads from the environment                                                |
| `server.py`    | `routes(site, admission)`: addresses of its own beside the page                                |
| `lent.py`      | `engine(load)`: the engine where this machine needs another than elsewhere; else None          |
| `fixtures.py`  | fixtures for the tests of whoever has installed draftscope                                     |
| `card.js`      | `card`: its part of the instrument (assets/instrument/README.md); `card.css` is its style      |
| `screens/`     | pages of its own, which are no part of the instrument                                          |
| `README.md`    | what it is for, how it is walked, how it is tested                                             |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from draftscope.base.errors import DraftscopeError


@dataclass(frozen=True)
class Command:
    """A command as `draftscope --help` lists it, under the heading `panel`."""

    name: str
    panel: str
    summary: str


@dataclass(frozen=True)
class Task:
    """Something that a visitor can do behind a door. Tasks stand in the order of their `place`."""

    title: str
    place: int
    command: Command | None = None


@dataclass(frozen=True)
class Door:
    """A part of the page with an address of its own, and one sentence about it. Doors stand in the order of their
    `place`; the core's is first."""

    name: str
    title: str
    place: int
    sentence: str


@dataclass(frozen=True)
class Folder:
    """Where the parts of a task, or what the tasks of a door share, are."""

    package: str
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def mount(self) -> str:
        """The folder as the instrument's modules name it: 'doors/decide/compare'."""
        return "/".join(self.package.split(".")[1:])

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def part(self, name: str) -> Any:
        """One of its modules, which is imported now; None where there is none of that name."""
        return import_module(f"{self.package}.{name}") if self.has(f"{name}.py") else None

    def folders(self) -> Iterator[Folder]:
        """The packages in it."""
        for module in iter_modules([str(self.path)]):
            if module.ispkg:
                yield Folder(f"{self.package}.{module.name}", self.path / module.name)


@dataclass(frozen=True)
class TaskFolder(Folder):
    """A task that is there."""

    task: Task


@dataclass(frozen=True)
class DoorFolder(Folder):
    """A door that is there. Its `page.py` may have a `Page` of its own, and a `lay_out` of its tasks' components."""

    door: Door
    tasks: tuple[TaskFolder, ...]


@cache
def doors() -> tuple[DoorFolder, ...]:
    """Every door that has a folder, in order."""
    folders = _folder("doors").folders()
    there = [DoorFolder(f.package, f.path, import_module(f.package).DOOR, tasks_in(f)) for f in folders]
    return tuple(sorted(there, key=lambda folder: folder.door.place))


@cache
def tasks() -> tuple[TaskFolder, ...]:
    """Every task behind a door, in order."""
    return tuple(task for door in doors() for task in door.tasks)


def task(name: str) -> TaskFolder:
    """The task behind a door whose folder has this name. Raises `DraftscopeError` where there is none."""
    folder = next((folder for folder in tasks() if folder.name == name), None)
    if folder is None:
        raise DraftscopeError(f"'{name}' is not part of this installation; install draftscope again.")
    return folder


@cache
def lab() -> tuple[TaskFolder, ...]:
    """The tasks that are commands only, in order."""
    return tasks_in(_folder("lab"))


@cache
def commands() -> dict[str, tuple[Command, TaskFolder]]:
    """Every command that a task has, and those of the lab."""
    return {
        folder.task.command.name: (folder.task.command, folder) for folder in (*tasks(), *lab()) if folder.task.command
    }


def tasks_in(folder: Folder) -> tuple[TaskFolder, ...]:
    """The tasks that have a folder in it, in order."""
    parts = [(inner, inner.part("task")) for inner in folder.folders()]
    there = [TaskFolder(inner.package, inner.path, part.TASK) for inner, part in parts if part is not None]
    return tuple(sorted(there, key=lambda inner: inner.task.place))


def _folder(name: str) -> Folder:
    """One of the app's, which may not be there."""
    return Folder(f"draftscope_app.{name}", Path(__file__).parents[1] / name)
