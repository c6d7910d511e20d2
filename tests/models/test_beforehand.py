"""The compiled programs, made by processes of their own while a model is fetched and read."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from draftscope.base.load_settings import LoadSettings
from draftscope.base.stages import watched_by
from draftscope.models import beforehand
from draftscope.models.native.linear import linear

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


# AVX2, on whatever processor of that kind this is: what is compiled for it is compiled nowhere else.
SHORTER = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+sse4.2,+avx,+avx2,+fma,+bmi,+bmi2,+f16c"}
X86 = platform.machine() in ("x86_64", "AMD64")
OTHER_PROCESS = """
import torch
from numba.core import caching
made = []
caching.Cache.save_overload = lambda *_: made.append(1)
from draftscope.models.native import available, linear, products
assert available.why_not() == ""
generator = torch.Generator().manual_seed(1)
weight, x = (torch.randn(size, generator=generator).bfloat16() for size in ((83, 96), (9, 96)))
with torch.inference_mode():
    product = linear.linear(x, weight, exact=True)
torch.save((len(made), products.ROWS, available.programs().panels, product), "product.pt")
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Any]:
    """Where the processes compiled all programs anew, what they said, and what another process then found."""
    pytest.importorskip("numba")
    folder = tmp_path_factory.mktemp("elsewhere")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)} | (SHORTER if X86 else {})
    python = [sys.executable, "-m", "draftscope.models.beforehand"]
    said = subprocess.run(python, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    subprocess.run([sys.executable, "-c", OTHER_PROCESS], env=environment, cwd=folder, check=True)
    return folder, said.strip(), torch.load(folder / "product.pt")


@pytest.mark.slow
def test_what_the_processes_compiled_no_other_compiles_again(elsewhere: tuple[Path, str, Any]) -> None:
    folder, said, (compiled_again, *_) = elsewhere
    assert (said, compiled_again) == ("", 0)
    assert list(folder.glob("*.compiled"))


@pytest.mark.slow
@pytest.mark.skipif(not X86, reason="AVX2 is a feature of x86-64 processors")
def test_a_processor_with_shorter_vectors_computes_the_same_bits(elsewhere: tuple[Path, str, Any]) -> None:
    """Other tiles, the same sums."""
    _, _, (_, rows, panels, actual) = elsewhere
    generator = torch.Generator().manual_seed(1)
    weight, x = (torch.randn(size, generator=generator).bfloat16() for size in ((83, 96), (9, 96)))
    with torch.inference_mode():
        assert rows == 2 and not panels and linear(x, weight, exact=True).equal(actual)
