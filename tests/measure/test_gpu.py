"""The GPU suite at small size: its parts on the CPU, and from start to end on a card that is not there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from draftscope.base.costs import Machine
from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import Steps
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.findings import Finding
from draftscope.measure.greedy_checks import PROMPTS, GreedySteps, GreedyTest, end_inside_a_block
from draftscope.models.files import memory_needed
from draftscope.models.forward import emulated_size
from draftscope.models.forward.emulated_size import EmulatedShape, pair_of
from tests.programs.gpu import __main__ as gpu
from tests.programs.gpu import kernels, sections
from tests.support import card
from tests.support.rehearsal import small_pair

SMALL = gpu.Size(
    samples=256, tokens=4, repeats=1, first=("plain", "draft"), shapes=("1b", "8b"), pairs=("8b+1b",), batches=(1, 3),
    contexts=(20, 300), kinds=("story",), seconds=1e6,
)  # fmt: skip


def few_and_short(engine: DecodingEngine, drafter: str, *_: object) -> GreedyTest:
    return GreedyTest(engine, drafter, prompts=PROMPTS[:2], tokens=8)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small shapes, few and short greedy texts, and no copies of large memory."""
    for name in ("1b", "8b"):
        monkeypatch.setitem(emulated_size.SHAPES, name, EmulatedShape(name, 1, 16, 2, 1, 8, 24, 30))

    def machine(_: object) -> Steps[None, Machine]:
        yield from ()
        return Machine(copy_gb_s=10.0, matmul_gflop_s=100.0)

    monkeypatch.setattr(sections, "machine", machine)
    monkeypatch.setattr(kernels, "REPEATS", 1)
    for room in ("tests.programs.gpu.sections", "draftscope.measure.check"):
        monkeypatch.setattr(f"{room}.GreedyTest", few_and_short)
    monkeypatch.setattr(end_inside_a_block, "__defaults__", (6,))  # tokens
    for name in gpu.SHARES:
        monkeypatch.setitem(gpu.SHARES, name, 1e6)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Few drafters, for the sake of time."""
    names, offered = {"plain", "draft"}, DecodingEngine.drafters
    monkeypatch.setattr(
        DecodingEngine, "drafters", lambda engine: [info for info in offered(engine) if info.name in names]
    )
    return names


def assert_whole(folder: Path, few: set[str]) -> None:
    """Every section has its rows, and none says that something is wrong or was not reached."""
    kept = json.loads((folder / "gpu.json").read_text())
    found: dict[str, list[dict[str, Any]]] = kept["sections"]
    assert list(found) == list(gpu.SHARES)
    assert all("why" not in row and row.get("wrong") is not True for rows in found.values() for row in rows)
    assert found["plain"][0]["ratio to generate"] > 0 and found["plain"][0]["graphs"] == "on"
    assert {row["drafter"] for row in found["exactness in float32"]} == few - {"plain"}
    assert [row["drafter"] for row in found["graphs"]] == ["plain", "draft"]
    for row in found["graphs"]:
        assert row["graphs / eager"] == pytest.approx(row["graphs tokens/s"] / row["eager tokens/s"])
    assert [row["rounds"] > 0 for row in found["waits"]] == [True, True]
    assert [(row["context"], row["rows"]) for row in found["attention"]] == [(20, 1), (20, 5), (300, 1), (300, 5)]
    assert {row["contexts"] for row in found["contexts"]} == {20, 300}
    assert {row["batches"] for row in found["batches"]} == {1, 3}
    assert [(row["shape"], row["measured"]) for row in found["bandwidth"]] == [("1b", True), ("8b", True)]
    assert {row["system"] for row in found["drafters"]} >= {"plain", "draft, gamma 4", "transformers-generate"}
    assert [row["drafter"] for row in found["ties"]] == ["draft"]
    assert found["emulated sizes"][0]["drafter"] == "draft"
    written = (folder / "gpu.md").read_text()
    assert all(f"## {name}\n" in written for name in found)
    assert (folder / "story-T0" / "bench.md").exists() and (folder / "story-T1" / "bench.md").exists()


@pytest.mark.slow
def test_the_suite_runs_on_a_card(few: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything but the loading of files: with graphs, two devices and all that a card refuses."""
    if why := card.why_not():
        pytest.skip(why)

    def loaded(*_: object, device: str, dtype: str = "", graphs: bool = True, emulate: str = "") -> DecodingEngine:
        engine = small_pair(device)
        for model, shape in zip(engine.models, pair_of(emulate), strict=True) if emulate else ():
            model.emulate(shape)
        for each in (*engine.models, *(head.network for head in engine.heads.values())) if graphs else ():
            each.record_graphs()
        return engine

    monkeypatch.setattr(gpu, "load", loaded)
    with card.card() as there:
        assert gpu.run(tmp_path, "cuda", SMALL, (None, None)) == 0
        assert there.wrong == []
    assert_whole(tmp_path, few)
    assert "a card that is not there" in (tmp_path / "gpu.md").read_text()


def run_rows(monkeypatch: pytest.MonkeyPatch, folder: Path, size: gpu.Size, **rows: Any) -> tuple[int, dict[str, Any]]:
    """What `run` returns and keeps of sections with these rows, or functions that give them."""
    engine = SimpleNamespace()
    monkeypatch.setattr(gpu, "load", lambda *_, **__: engine)
    monkeypatch.setattr(gpu, "machine", lambda _: {})
    monkeypatch.setattr(gpu, "machine_words", lambda _: "a machine")
    made = {name: each if callable(each) else lambda _, own=each: own for name, each in rows.items()}
    monkeypatch.setattr(gpu, "_sections", lambda *_: made)
    for name in rows:
        monkeypatch.setitem(gpu.SHARES, name, 10.0)
    failed = gpu.run(folder, "cpu", size, (None, None))
    return failed, json.loads((folder / "gpu.json").read_text())["sections"]


def test_what_fails_is_counted_and_the_rest_still_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def breaks(_: float) -> Any:
        yield {"drafter": "draft", "wrong": False}
        raise RuntimeError("CUDA error: misaligned address")

    failed, kept = run_rows(monkeypatch, tmp_path, SMALL, one=[{"wrong": True}], two=breaks, three=[{"wrong": False}])
    assert failed == 2
    assert kept["two"] == [
        {"drafter": "draft", "wrong": False},
        {"wrong": True, "why": "RuntimeError: CUDA error: misaligned address"},
    ]
    assert kept["three"] == [{"wrong": False}]


def test_each_row_is_kept_when_it_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def two(_: float) -> Any:
        yield {"row": 1}
        assert json.loads((tmp_path / "gpu.json").read_text())["sections"]["one"] == [{"row": 1}]
        assert "| 1" in (tmp_path / "gpu.md").read_text()
        yield {"row": 2}

    assert run_rows(monkeypatch, tmp_path, SMALL, one=two)[1] == {"one": [{"row": 1}, {"row": 2}]}


def test_the_time_is_shared_and_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A section ends by its share, all of them by the budget; what is not reached says so."""
    now = [0.0]
    monkeypatch.setattr(gpu, "monotonic", lambda: now[0])
    given: list[float] = []

    def takes(seconds: float) -> Any:
        def rows(end: float) -> Any:
            given.append(end)
            now[0] += seconds
            yield {"row": 1}

        return rows

    size = replace(SMALL, seconds=25.0)
    failed, kept = run_rows(monkeypatch, tmp_path, size, one=takes(6), two=takes(14), three=takes(6), four=takes(1))
    assert given == [10.0, 16.0, 25.0] and failed == 0
    assert kept["four"] == [{"why": "not reached: the time was up"}]
    assert gpu.Size().seconds < 600


def test_what_a_section_does_not_reach_is_named() -> None:
    assert list(sections.until(monotonic() + 60, ["a", "b"])) == ["a", "b"]
    with pytest.raises(DraftscopeError, match=r"Not reached, because the time was up: a, b\."):
        list(sections.until(monotonic() - 1, ["a", "b"]))


def test_a_tie_in_float32_is_wrong(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Finding("greedy identity", True, "", ties=ties) for ties in (0, 1)] + [Finding("other", False, "")]
    monkeypatch.setattr(sections, "check", lambda *_: iter(found))
    rows = list(sections.exactness(lambda: pair, ["draft"], 10, monotonic() + 60))
    assert [row["wrong"] for row in rows] == [False, True, True]


def test_a_tie_in_16_bits_is_counted_and_right(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([Finding("greedy identity", True, "parts", ties=2), Finding("greedy identity", False, "wrong")])

    def greedy_identity(_: object) -> GreedySteps:
        yield None
        return next(found)

    monkeypatch.setattr(sections, "greedy_identity", greedy_identity)
    rows = list(sections.ties(pair, ["draft", "ngram"], monotonic() + 60))
    assert [(row["wrong"], row["ties"]) for row in rows] == [(False, 2), (True, 0)]


def test_waits_are_counted_per_round(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The profiler counts calls by their names; here those of an operation that runs once a round on a CPU."""
    monkeypatch.setattr(kernels, "CALLS", {"forwards": ("aten::embedding",), "waits": ("cudaStreamSynchronize",)})
    (row,) = kernels.waits(pair, ["plain"], 6, monotonic() + 60)
    assert (row["rounds"], row["forwards a round"], row["waits a round"]) == (6, 1.0, 0.0)


class Clocked:
    """A engine whose runs have these speeds, in turn."""

    def __init__(self, *speeds: float) -> None:
        self._speeds = iter(speeds)

    def decode(self, *_: object, **__: object) -> Any:
        speed = next(self._speeds)
        return SimpleNamespace(
            token_ids=[1], metrics=SimpleNamespace(tokens_per_s=speed, stage_ms={"propose": 8 / speed})
        )


LATE = float("inf")


def test_the_ratio_of_two_labs_is_that_of_the_medians_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "models_of", lambda *_: [])
    labs: Any = {"eager": Clocked(1000, 10, 40, 20), "graphs": Clocked(1, 50, 30, 90)}
    (row,) = sections.paired(lambda: labs, ["draft"], 4, 3, LATE)
    assert (row["eager tokens/s"], row["graphs tokens/s"], row["graphs / eager"]) == (20, 50, 2.5)
    assert row["propose eager / graphs"] == 2.5


def test_the_ratio_with_emulated_sizes_is_that_of_the_medians_after_a_warm_up() -> None:
    engine: Any = Clocked(1000, 1, 10, 30, 40, 50, 20, 60)  # plain and drafter in turn
    (row,) = sections.emulated_sizes(lambda _: engine, ["8b+1b"], 4, 3, LATE)
    assert (row["plain tokens/s"], row["ratio to plain"]) == (20, 2.5)


def test_other_tokens_are_found(pair: DecodingEngine) -> None:
    other = DecodingEngine(pair.draft, pair.draft, pair.tokenizer)  # type: ignore[arg-type]
    (row,) = sections.paired(lambda: {"one": pair, "two": other}, ["plain"], 6, 1, LATE)
    assert row["wrong"]


def test_a_shape_that_does_not_fit_is_modelled(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise DraftscopeError("too large")

    monkeypatch.setattr(memory_needed, "refuse_weights", refuse)
    (row,) = sections.bandwidth(lambda: pair, ["8b"], 4, LATE)
    assert row["measured"] is False and row["why"] == "too large"
    assert row["tokens/s"] == pytest.approx(10.0 / row["GB a token"])
    assert list(sections.emulated_sizes(lambda _: refuse() or pair, ["8b+1b"], 4, 1, LATE)) == [
        {"pair": "8b+1b", "why": "too large"}
    ]


def test_without_cuda_the_suite_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu"])
    assert gpu.main() == 2
    assert "this machine has no CUDA; choose cpu or auto" in capsys.readouterr().err
