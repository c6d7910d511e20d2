"""A task is a folder: without it the program starts, and has one task less."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import draftscope
import draftscope_app
from draftscope.base.assets import assets
from draftscope_app.doors.door import TaskFolder, commands, doors, tasks
from draftscope_app.engine.site import Site
from draftscope_app.page import controls, page
from draftscope_app.page.theme import page_css
from draftscope_app.serve.doors import page_doors
from tests.test_core_alone import ROOT, core_folders
from tests.test_core_alone import doors as doors_of_all

LAB = tuple(folder for _, folder in commands().values() if folder not in tasks() and ".lab." in folder.package)
EVERY = (*tasks(), *LAB)
APP = Path(draftscope_app.__file__).parent
# What is slow to import is imported once; each line of input names a copy of the app, which a child then imports.
CHECKS = """
import gc, json, os, sys
from importlib import import_module
import gradio, plotly, segno, typer, draftscope
import draftscope.api, draftscope.servers.field, draftscope.advise.advise, draftscope.measure.check
gc.freeze()  # or each child copies what it shares
gc.disable()
def check(folder):
    sys.path.insert(0, folder)
    import asyncio
    from pathlib import Path
    from types import SimpleNamespace
    import draftscope_app
    assert Path(draftscope_app.__file__).is_relative_to(folder)
    for path in sorted(Path(top, name) for top, _, names in os.walk(folder, followlinks=True) for name in names):
        if path.suffix == ".py" and path.stem not in ("zero", "hub", "pytest_plugin") and "command" not in path.name:
            name = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
            import_module(name)
    from draftscope_app.cli.main import COMMANDS, imported
    for command in COMMANDS:
        imported(command)
    from draftscope_app.doors.door import tasks
    from draftscope_app.engine.config import Limits
    from draftscope_app.engine.jobs import EngineStatus
    from draftscope_app.engine.visitors import Visitors
    from draftscope_app.engine.site import Site
    from draftscope_app.page import page
    from draftscope_app.serve import doors
    site, admission = Site(), SimpleNamespace(engine=SimpleNamespace(status=EngineStatus()), limits=Limits())
    async def built():
        return page.build(admission, Visitors(), site, doors=doors.page_doors())
    asyncio.run(built())
    script = page.script(site, doors.page_doors())
    routes = [route.path for route in doors.routes(site, admission)]
    return {"tasks": [task.name for task in tasks()], "commands": list(COMMANDS), "routes": routes, "script": script}
for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            print(json.dumps(check(line.strip())), flush=True)
        except BaseException as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """What the app has and can do without each task, by the task's package; and with all of them, under ''."""
    root, copies = tmp_path_factory.mktemp("apps"), {}
    for package in ("", *(task.package for task in EVERY)):
        (folder := root / (package or "whole")).mkdir()
        link(folder / APP.name, APP, without=[package.split(".")[1:]])
        copies[package] = folder
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECKS],
        input="".join(f"{folder}\n" for folder in copies.values()),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(Path(draftscope.__file__).parents[1]),
            "HOME": str(Path.home()),
        },
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(copies, lines, strict=True))


def link(here: Path, there: Path, without: Sequence[Sequence[str]]) -> None:
    """Makes `here` a folder with the files of `there`, but for what is at the paths `without`. By links: a copy has no
    byte code, and each process would compile it for itself."""
    here.mkdir()
    for path in there.iterdir():
        below = [names[1:] for names in without if [*names[:1]] == [path.name]]
        if not below:
            (here / path.name).symlink_to(path)
        elif all(below):
            link(here / path.name, path, below)


@pytest.mark.parametrize("task", EVERY, ids=lambda task: task.package.removeprefix("draftscope_app."))
def test_without_its_folder_there_is_one_task_less(task: TaskFolder, without: dict[str, dict[str, object]]) -> None:
    whole, rest = without[""], without[task.package]
    assert "error" not in whole, whole["error"]
    assert "error" not in rest, rest["error"]
    left = [other.name for other in tasks() if other != task]
    assert rest["tasks"] == left
    command = task.task.command
    assert set(rest["commands"]) == set(whole["commands"]) - ({command.name} if command else set())
    assert (f"{task.mount}/card.js" in str(rest["script"])) is False


@pytest.mark.slow
def test_without_any_door_the_cores_tests_are_all_there_and_pass(tmp_path: Path) -> None:
    """All are imported, and those of the command line, the page and the options run."""
    places = {"draftscope": "engine/draftscope", "draftscope_app": "app/draftscope_app", "tests": "tests"}
    gone = [name.partition(".") for name in doors_of_all()]
    without = [[*places[top].split("/"), *rest.split(".")] for top, _, rest in gone]
    link(tmp_path / "core", ROOT, without)
    core = tmp_path / "core"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow and not browser"),
            *("-k", "test_cli.py or test_app_views or test_options", *core_folders()),
        ],
        cwd=core,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{core / 'engine'}{os.pathsep}{core / 'app'}"},
    )
    assert done.returncode == 0, done.stdout
    passed, deselected = re.search(r"(\d+) passed, (\d+) deselected", done.stdout).groups()  # type: ignore[union-attr]
    assert int(passed) > 100 and int(deselected) > 2000


def test_doors_stand_in_their_order_with_all_their_tasks() -> None:
    assert [door.door.name for door in doors()] == ["decide", "servers", "learn"]
    assert all(folder.has("README.md") for folder in EVERY)
    assert all(folder.task.title for folder in EVERY)


def test_the_cores_styles_name_nothing_that_only_a_task_makes() -> None:
    core = [*(APP / "page").rglob("*.py"), *(assets() / "instrument").rglob("*.js")]
    made = set(re.findall(r"[\w-]+", "\n".join(path.read_text(encoding="utf-8") for path in core)))
    made |= {f"ds-{name.replace('_', '-')}" for name in controls.defaults()}
    for sheet in (assets() / "page.css", *(assets() / "instrument").rglob("*.css")):
        selectors = re.sub(r"/\*.*?\*/|\{[^{}]*\}", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
        names = set(re.findall(r"[.#]([a-z][\w-]*)", selectors))
        assert {name for name in names if name.startswith("ds-") or sheet.name != "page.css"} <= made, sheet


def test_every_style_sheet_of_a_task_is_on_the_page() -> None:
    styles = [style for door in page_doors() for style in door.styles]
    assert styles == [
        path for door in doors() for folder in (door, *door.tasks) for path in folder.path.glob("page.css")
    ]
    css = page_css(styles)
    assert all(style.read_text(encoding="utf-8") in css for style in styles)


def test_the_script_holds_every_file_of_the_instrument_and_of_tasks_once() -> None:
    script = page.script(Site(), page_doors())
    folders = [("", assets() / "instrument"), *((one.mount + "/", one.path) for one in (*doors(), *tasks()))]
    found = [(mount, folder, path) for mount, folder in folders for path in _listed(folder, nested=not mount)]
    assert len(found) > 120
    for mount, folder, path in found:
        text = f'modules["{mount}{path.relative_to(folder).as_posix()}"] = '
        if path.suffix == ".css":
            text = next(line for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("*/"))
            text = json.dumps(text)[1:-1]
        assert script.count(text) == 1, path


def _listed(folder: Path, nested: bool) -> list[Path]:
    """Its scripts and style sheets but `page.css`, which is the page's; those below it too if `nested`."""
    found = (path for suffix in ("js", "css") for path in folder.glob(f"{'**/' * nested}*.{suffix}"))
    return [path for path in found if path.name != "page.css"]
