"""Regret: the fold of runs into rows, the tables, and `draftscope regret` at tiny sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from draftscope.base.markdown import one_line
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.round_arrays import MeasuredRounds
from draftscope.measure.bench.runner import BenchRun
from draftscope.measure.bench.statistics import Interval
from draftscope.measure.bench.systems import OWN, PLAIN, Case, Label, System
from draftscope_app.cli import command_options
from draftscope_app.cli.main import main
from draftscope_app.lab.regret.regret import CellRuns, Chooser, ChosenSetting, RegretCell, cell_rows, ratio_of_sums

CHAIN, TREE, UCB = (Label(OWN, name) for name in ("draft:2", "sampled-tree:4x1", "ucb"))


def run(label: Label, seconds: float, repeat: int = 0) -> BenchRun:
    ones = np.ones((4, 1), dtype=np.int64)
    rounds = MeasuredRounds(ones[:, 0], np.ones((4, 5)), ones * 2, ones, ones.astype(bool), np.zeros(4))
    return BenchRun(label, Case("code", 0, ((1, 2),), 1.0), repeat, seconds, [list(range(10))], rounds)


def runs(seconds: dict[Label, list[float]]) -> list[BenchRun]:
    """One prompt, a run for each repeat."""
    return [run(label, took, repeat) for label, several in seconds.items() for repeat, took in enumerate(several)]


class FixedChooser(Chooser):
    """Chooses what it was made with."""

    def __init__(self, label: Label) -> None:
        self.name = label.name
        self.system: System = NoSystem(label)

    def choose(self, cell: RegretCell) -> ChosenSetting:
        return ChosenSetting(self.system, {"verdict": "so it is"})


class NoSystem(System):
    def __init__(self, label: Label) -> None:
        self.label = label

    def prepare(self, case: Case, tokens: int, seed: int) -> Any:
        raise AssertionError("it has run before")


def rows(seconds: dict[Label, list[float]], chosen: Label) -> dict[str, dict[str, Any]]:
    """The rows of a cell by name, with two fixed settings and one chooser."""
    cell, chooser = RegretCell("code", [], 1.0, 1), FixedChooser(chosen)
    found = cell_rows(cell, runs(seconds), [CHAIN, TREE], {chooser: chooser.choose(cell)})
    return {row["name"] if not row["policy"] else "chosen": row for row in found}


def test_the_best_setting_is_that_of_the_cell_and_choosers_are_held_against_it() -> None:
    found = rows({PLAIN: [4.0], CHAIN: [1.0], TREE: [2.0], UCB: [1.25]}, UCB)
    assert [name for name, row in found.items() if row["regret"] == 0] == ["draft:2"]
    assert found["chosen"]["regret"] == pytest.approx(0.2) and found["chosen"]["best"] == "draft:2"
    assert found["draft:2"]["ratio_to_plain"].median == 4.0 and found["draft:2"]["tokens_per_round"] == 2.0
    assert found["sampled-tree:4x1"]["ratio_to_best"].median == 0.5
    assert found["chosen"]["verdict"] == "so it is" and "verdict" not in found["draft:2"]
    better = rows({PLAIN: [4.0], CHAIN: [3.0], TREE: [2.0], UCB: [1.0]}, UCB)
    assert better["chosen"]["regret"] == pytest.approx(-1.0)  # no fixed setting does as well
    assert better["chosen"]["best"] == "sampled-tree:4x1"


def test_a_speed_is_all_tokens_over_all_seconds() -> None:
    """Not the mean of the repeats' ratios: 1 s and 4 s against 4 s and 4 s are 8 over 5, not 2.5."""
    table = CellRuns(runs({PLAIN: [4.0, 4.0], CHAIN: [1.0, 4.0]}), ratio_of_sums)
    assert table.ratio(CHAIN).median == 8 / 5


def test_ratios_are_taken_within_the_same_repeat() -> None:
    """The second repeat is slow for both: the interval is one point."""
    table = CellRuns(runs({PLAIN: [4.0, 9.0], CHAIN: [1.0, 3.0], TREE: [2.0, 6.0]}), ratio_of_sums)
    assert table.ratio(CHAIN, TREE) == Interval(2.0, 2.0, 2.0)
    fewer = CellRuns([run(CHAIN, 1.0, 0), run(CHAIN, 9.0, 1), run(TREE, 2.0, 0)], ratio_of_sums)
    assert fewer.ratio(CHAIN, TREE).median == 2.0  # a run without its partner does not count


def test_held_out_regret_does_not_choose_the_best_by_the_runs_that_measure_it() -> None:
    """Even repeats choose the lucky one, odd ones what was advised."""
    seconds = {PLAIN: [1.0] * 4, CHAIN: [1 / 1.2] * 4, TREE: [1 / 1.6, 1.0] * 2}
    table = CellRuns(runs(seconds), ratio_of_sums)
    assert table.held_out(CHAIN, [CHAIN, TREE]) == pytest.approx((1 - 1.2 / 1.0 + 0) / 2)
    one = CellRuns(runs({label: several[:1] for label, several in seconds.items()}), ratio_of_sums)
    assert one.held_out(CHAIN, [CHAIN, TREE]) is None


@pytest.fixture
def regret(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Any:
    monkeypatch.setattr(command_options, "load", lambda _: pair)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["regret", "--out", str(tmp_path), *arguments])
        return (code, *capsys.readouterr())

    return call


TINY = ("--quick", "--tokens", "12", "--repeats", "1", "--kinds", "story,code", "--temperature", "0,1")


def test_the_command_leaves_json_and_markdown(regret: Any, tmp_path: Path) -> None:
    code, out, err = regret(*TINY, "--arms", "draft:2,sampled-tree:2x1", "--policies", "ucb,exp3")
    assert code == 0, err
    saved = json.loads((tmp_path / "regret.json").read_text())
    cells = {(row["kind"], row["temperature"], row["name"]) for row in saved["rows"]}
    assert cells == {
        (kind, temperature, name)
        for kind in ("story", "code")
        for temperature in (0.0, 1.0)
        for name in ("draft:2", "sampled-tree:2x1", "ucb", "exp3")
    }
    for kind in ("story", "code"):
        of_kind = [row for row in saved["rows"] if row["kind"] == kind]
        assert min(row["regret"] for row in of_kind if not row["policy"]) == 0
        assert {row["name"] for row in of_kind if row["policy"]} == {"ucb", "exp3"}
        assert all(row["ratio_to_best"]["low"] > 0 and row["held_out"] is None for row in of_kind)
    assert out.strip() == (tmp_path / "regret.md").read_text().strip()
    assert out.count("| ucb ") >= 4 and "Speed over plain's, T = 1 (" in one_line(out)
    assert f"wrote regret.json, regret.md to {tmp_path}." in err


def test_a_kind_that_cannot_be_read_is_a_note_and_nothing_at_all_an_error(regret: Any, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    long, short = {"prompt": "ab " * 4000, "kind": "long"}, {"prompt": "Once upon", "kind": "short"}
    prompts.write_text("\n".join(map(json.dumps, (long, short))))
    tiny = (*TINY[:5], "--temperature", "1", "--arms", "draft:2", "--policies", "ucb", "--prompts", str(prompts))
    code, out, err = regret(*tiny)
    assert code == 0 and "long at T = 1, 1 at once was skipped" in one_line(out), err
    assert {row["kind"] for row in json.loads((tmp_path / "regret.json").read_text())["rows"]} == {"short"}
    code, _, err = regret(*tiny, "--kinds", "long")
    assert code == 2 and "Nothing was measured. long" in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--policies", "ucbb"), "policy = 'ucbb'"),
        (("--arms", "draft:x"), "arms: 'draft:x', gamma = 'x'"),
        (("--tokens", "0"), "max_new_tokens = 0"),
        (("--kinds", "manuals"), "There is no kind of text 'manuals'"),
    ],
)
def test_bad_input_is_one_sentence(regret: Any, arguments: tuple[str, ...], sentence: str) -> None:
    code, _, err = regret(*TINY, *arguments)
    assert code == 2
    assert sentence in err


def test_an_arm_without_its_head_is_said_before_anything_is_measured(
    regret: Any, pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_options, "load", lambda _: DecodingEngine(pair.target, pair.draft, pair.tokenizer))
    code, _, err = regret(*TINY, "--arms", "draft:2,eagle3-tree")
    assert code == 2
    assert "The arm 'eagle3-tree' cannot run here: no eagle3 head is loaded" in err
