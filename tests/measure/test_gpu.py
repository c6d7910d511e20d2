"""The GPU suite's own logic, on the CPU at small size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from draftscope.base import prompts
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
    """Small shapes, and two kinds of text."""
    texts = [prompt for prompt in prompts.shipped() if prompt.kind in ("story", "code")]
    monkeypatch.setattr(prompts, "shipped", lambda: texts)
    for name in ("1b", "8b"):
        monkeypatch.setitem(ballast.SHAPES, name, BallastShape(name, 1, 16, 2, 1, 8, 24, 30))
    monkeypatch.setattr(sections, "machine", lambda _: Machine(copy_gb_s=10.0, matmul_gflop_s=100.0))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Few drafters, for the sake of time."""
    names, offered = {"plain", "draft"}, Lab.drafters
    monkeypatch.setattr(Lab, "drafters", lambda lab: [info for info in offered(lab) if info.name in names])
    return names


@pytest.mark.slow
def test_every_section_ends_and_is_kept(pair_folders: tuple[Path, Path], few: set[str], tmp_path: Path) -> None:
    target, draft = map(str, pair_folders)
    assert gpu.run(tmp_path, "cpu", SMALL, (target, draft)) == 0
    kept = json.loads((tmp_path / "gpu.json").read_text())
    found: dict[str, list[dict[str, Any]]] = kept["sections"]
    assert kept["machine"]["device"] == "CPU"
    assert {row["drafter"] for row in found["exactness"]} == few
    assert [row["drafter"] for row in found["graphs"]] == ["plain", "draft"]
    assert all(row["tokens equal"] for row in found["graphs"])
    for row in found["graphs"]:
        assert row["graphs / eager"] == pytest.approx(row["graphs tokens/s"] / row["eager tokens/s"])
    assert [(row["shape"], row["measured"]) for row in found["bandwidth"]] == [("1b", True), ("8b", True)]
    assert found["ballast"][0]["drafter"] == "draft"
    assert {(row["system"], row["batch"]) for row in found["batch"]} >= {("plain", 1), ("draft, gamma 4", 3)}
    assert {row["context"] for row in found["context"]} == {20, 300}
    written = (tmp_path / "gpu.md").read_text()
    assert all(f"## {name}\n" in written for name in found)
    assert (tmp_path / "bench.md").exists()


class Clocked:
    """A lab whose runs have these speeds, in turn."""

    def __init__(self, *speeds: float) -> None:
        self._speeds = iter(speeds)

    def decode(self, *_: object, **__: object) -> Any:
        speed = next(self._speeds)
        return SimpleNamespace(
            token_ids=[1], metrics=SimpleNamespace(tokens_per_s=speed, stage_ms={"propose": 8 / speed})
        )


def test_the_ratio_of_two_labs_is_that_of_the_medians_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "models_of", lambda *_: [])
    labs: Any = {"eager": Clocked(1000, 10, 40, 20), "graphs": Clocked(1, 50, 30, 90)}
    (row,) = sections.paired(labs, ["draft"], tokens=4, repeats=3)
    assert (row["eager tokens/s"], row["graphs tokens/s"], row["graphs / eager"]) == (20, 50, 2.5)
    assert row["propose eager / graphs"] == 2.5


def test_the_ratio_with_ballast_is_that_of_the_medians_after_a_warm_up() -> None:
    lab: Any = Clocked(1000, 1, 10, 30, 40, 50, 20, 60)  # plain and drafter in turn
    (row,) = sections.ballast(lambda _: lab, ["8b+1b"], tokens=4, repeats=3)
    assert (row["plain tokens/s"], row["ratio to plain"]) == (20, 2.5)


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
