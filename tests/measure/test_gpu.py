"""The GPU suite's own logic, on the CPU at small size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from draftscope.base.costs import Machine
from draftscope.base.errors import DraftscopeError
from draftscope.decode.lab import Lab
from draftscope.measure.gpu import __main__ as gpu
from draftscope.measure.gpu import sections
from draftscope.models.files import memory
from draftscope.models.forward import ballast
from draftscope.models.forward.ballast import BallastShape

SMALL = gpu.Size(
    samples=500, tokens=4, repeats=1, graphs=("plain", "draft", "eagle3"), shapes=("1b", "8b"), pairs=("8b+1b",),
    batches=(1, 3), contexts=(20, 300),
)  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("1b", "8b"):
        monkeypatch.setitem(ballast.SHAPES, name, BallastShape(name, 1, 16, 2, 1, 8, 24, 30))
    monkeypatch.setattr(sections, "machine", lambda _: Machine(copy_gb_s=10.0, matmul_gflop_s=100.0))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Few drafters, for the sake of time."""
    names, offered = {"plain", "draft", "ngram"}, Lab.drafters
    monkeypatch.setattr(Lab, "drafters", lambda lab: [info for info in offered(lab) if info.name in names])
    return names


def test_every_section_ends_and_is_kept(pair_folders: tuple[Path, Path], few: set[str], tmp_path: Path) -> None:
    target, draft = map(str, pair_folders)
    assert gpu.run(tmp_path, "cpu", SMALL, (target, draft)) == 0
    kept = json.loads((tmp_path / "gpu.json").read_text())
    found: dict[str, list[dict[str, Any]]] = kept["sections"]
    assert kept["machine"]["device"] == "CPU"
    assert {row["drafter"] for row in found["exactness"]} == few
    assert [row["drafter"] for row in found["graphs"]] == ["plain", "draft"]
    assert all(row["tokens equal"] and row["graphs / eager"] > 0 for row in found["graphs"])
    assert [(row["shape"], row["measured"]) for row in found["bandwidth"]] == [("1b", True), ("8b", True)]
    assert found["ballast"][0]["drafter"] == "draft" and found["ballast"][0]["ratio to plain"] > 0
    assert {(row["system"], row["batch"]) for row in found["batch"]} >= {("plain", 1), ("draft, gamma 4", 3)}
    assert {row["context"] for row in found["context"]} == {20, 300}
    written = (tmp_path / "gpu.md").read_text()
    assert all(f"## {name}\n" in written for name in found)
    assert (tmp_path / "bench.md").exists()


def test_who_is_not_reached_in_time_is_named(pair: Lab, few: set[str]) -> None:
    rows = list(sections.exactness(pair, 500, monotonic() - 1))
    assert {row["drafter"] for row in rows} == few
    assert all(row["name"] == "not reached" and row["passed"] is None for row in rows)


def test_other_tokens_are_found(pair: Lab) -> None:
    other = Lab(pair.draft, pair.draft, pair.tokenizer)  # type: ignore[arg-type]
    assert not sections.paired({"one": pair, "two": other}, ["plain"], 6, 1)[0]["tokens equal"]


def test_a_shape_that_does_not_fit_is_modelled(pair: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise DraftscopeError("too large")

    monkeypatch.setattr(memory, "refuse_weights", refuse)
    row = sections.bandwidth(lambda: pair, ["8b"], 4)[0]
    assert row["measured"] is False and row["why"] == "too large"
    assert row["tokens/s"] == pytest.approx(10.0 / row["GB a token"])
    assert sections.ballast(lambda _: refuse() or pair, ["8b+1b"], 4, 1) == [{"pair": "8b+1b", "why": "too large"}]


def test_a_check_that_fails_is_counted(
    pair_folders: tuple[Path, Path], few: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "exactness", lambda *_: iter([{"drafter": "draft", "passed": False}]))
    monkeypatch.setattr(sections, "sweep", lambda *_: [])
    size = replace(SMALL, graphs=("plain",), shapes=(), pairs=())
    target, draft = map(str, pair_folders)
    assert gpu.run(tmp_path, "cpu", size, (target, draft)) == 1


def test_without_cuda_the_suite_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu"])
    assert gpu.main() == 2
    assert "this machine has no CUDA; choose cpu or auto" in capsys.readouterr().err
