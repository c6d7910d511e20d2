"""The compiled programs, made by processes of their own while a model is fetched and read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftscope.base.load_settings import LoadSettings
from draftscope.base.stages import watched_by
from draftscope.models import beforehand
from tests.models.test_native import COUNTED

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def marker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A machine on which nothing is compiled yet, with processes that only say so."""
    pytest.importorskip("numba")
    place = tmp_path / "compiled"
    monkeypatch.setattr(beforehand, "_marker", lambda: place)
    monkeypatch.setattr(beforehand, "_children", None)
    monkeypatch.setattr(beforehand, "NVIDIA", tmp_path / "no card")
    monkeypatch.setattr(beforehand, "CHILD", "tests.support.compiles")
    yield place
    beforehand.finish()


def test_it_is_told_how_far_compiling_is(marker: Path) -> None:
    said: list[str] = []
    with watched_by(lambda at: said.append(at.words)):
        beforehand.begin(LoadSettings())
        first = beforehand._children
        beforehand.begin(LoadSettings(target="smollm2"))
        assert first is not None and beforehand._children is first
        beforehand.finish()
    assert beforehand._children is None
    assert (first.functions, first.parts) == (6, 2)
    assert all("compiling for this processor, once a machine" in words for words in said)
    assert any("2 of 2 parts left" in words for words in said)


@pytest.mark.parametrize(
    "load", [LoadSettings(dtype="float32"), LoadSettings(dtype="int3"), LoadSettings(device="cuda")]
)
def test_nothing_is_compiled_that_these_models_do_not_need(marker: Path, load: LoadSettings) -> None:
    beforehand.begin(load)
    assert beforehand._children is None


def test_nothing_is_compiled_twice_nor_with_a_card_nor_without_numba(
    marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beforehand.compiled()
    beforehand.begin(LoadSettings())
    assert beforehand._children is None
    marker.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(beforehand, "NVIDIA", tmp_path)
        beforehand.begin(LoadSettings())
        patch.setattr(beforehand, "NVIDIA", tmp_path / "no card")
        patch.setattr(beforehand, "find_spec", lambda _: None)
        beforehand.begin(LoadSettings())
    assert beforehand._children is None


def test_a_process_that_fails_is_waited_for_and_no_error(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beforehand, "CHILD", "tests.support.no_such_module")
    beforehand.begin(LoadSettings())
    beforehand.finish()
    assert beforehand._children is None


def test_the_place_of_the_note_is_another_one_for_other_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    def place() -> Path:
        beforehand._marker.cache_clear()
        return beforehand._marker()

    before = place()
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "+avx2")
    assert place().name != before.name
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/elsewhere")
    assert place().parent == Path("/elsewhere")
    beforehand._marker.cache_clear()


def test_a_process_ends_when_whoever_started_it_is_gone() -> None:
    pytest.importorskip("numba")
    command = [sys.executable, "-m", "draftscope.models.beforehand_child", "programs"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, cwd=ROOT, timeout=300)
    assert ended.returncode == 1


@pytest.mark.slow
def test_what_the_processes_compiled_no_other_compiles_again(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    found = []
    for command in (["-m", "draftscope.models.beforehand"], ["-c", COUNTED]):
        ran = subprocess.run([sys.executable, *command], env=environment, cwd=ROOT, capture_output=True, text=True)
        found.append(ran.stdout.strip())
    assert found == ["", "0"]
    assert list(tmp_path.glob("*.compiled"))
