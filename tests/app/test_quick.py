"""What a start of the server leaves out: Gradio's stubs for editors, its apps that serve nobody, looks for garbage."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import draftscope
from draftscope.base.collecting import without_collecting
from draftscope_app.serve import quick
from tests.app.conftest import idle_server

ROOT = Path(__file__).resolve().parents[2]
PARSED = """import ast, sys
callers, parse = set(), ast.parse
def noted(*given, **named):
    callers.add(sys._getframe(1).f_globals["__name__"])
    return parse(*given, **named)
ast.parse = noted
from draftscope_app.serve import quick
quick.import_without_stubs() if sys.argv[1] == "without" else __import__("gradio")
print(quick.STUBS in callers, hasattr(sys.modules["gradio"].Textbox, "submit"), len(sys.meta_path))"""


def imported(how: str) -> list[str]:
    command = [sys.executable, "-c", PARSED, how]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.split()


def test_gradio_is_imported_without_writing_stubs() -> None:
    """Which it does otherwise: with each start of a program, from the source of each component."""
    (written, *with_them), (left_out, *without) = imported("with"), imported("without")
    assert (written, left_out) == ("True", "False")
    assert with_them == without  # components have their events, and imports go on as before


def test_a_server_makes_one_app_and_collects_no_garbage_before_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradio.routes import App

    made: list[bool] = []
    create: Any = App.create_app

    def counted(*given: Any, **named: Any) -> Any:
        made.append(gc.isenabled())
        return create(*given, **named)

    monkeypatch.setattr(App, "create_app", staticmethod(counted))
    with idle_server(tmp_path) as served:
        assert made == [False]
        assert gc.isenabled()
        assert served.demo.app is served.demo.server_app
    assert App.create_app is counted


def test_apps_are_made_again_when_a_page_could_not_be() -> None:
    from gradio.routes import App

    before = App.create_app
    with pytest.raises(RuntimeError), quick.keeping_all(), quick.without_apps():
        raise RuntimeError
    assert App.create_app is before
    assert gc.isenabled()


def test_an_import_of_the_engine_is_not_looked_through_for_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would do so a thousand times, as torch and transformers make their million objects."""
    looked: list[bool] = []
    apart = {name: module for name, module in sys.modules.items() if name != "draftscope.api"}
    monkeypatch.setattr(sys, "modules", apart)

    def imported(name: str) -> Any:
        if name not in apart:
            looked.append(gc.isenabled())
            apart[name] = SimpleNamespace(load=len)  # type: ignore[assignment]
        return apart[name]

    monkeypatch.setattr(draftscope, "import_module", imported)
    assert [draftscope.load, draftscope.load] == [len, len]
    assert (looked, gc.isenabled()) == ([False], True)


def test_afterwards_what_is_there_counts_as_old() -> None:
    """Else the first look would go through all of it at once. What a program has put aside for ever stays there."""
    gc.unfreeze()  # `conftest` puts aside what tests import
    try:
        with without_collecting():
            kept = [["one of many"] for _ in range(9)]
        assert among(kept, gc.get_objects(generation=2))
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()
    with without_collecting():
        later = ["one more"]
    assert among(later, gc.get_objects())  # so not put aside, and what was is not here again
    assert not among(kept, gc.get_objects())


def among(wanted: object, things: list[Any]) -> bool:
    return any(thing is wanted for thing in things)


def test_a_program_that_wants_no_looks_has_none_afterwards() -> None:
    gc.disable()
    try:
        with without_collecting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_make_run_keeps_byte_code_whatever_the_environment_says() -> None:
    """Else every start compiles all of Gradio and torch again."""
    told = subprocess.run(
        ["make", "--dry-run", "--always-make", "run"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    (command,) = [line for line in told.stdout.splitlines() if "draftscope serve" in line]
    assert command.startswith("PYTHONDONTWRITEBYTECODE= ")
