"""Regret: the fold of runs into rows, the tables, and `draftscope regret` at tiny sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from draftscope.base.markdown import one_line
from draftscope.decode.lab import Lab
from draftscope.measure.bench.rounds import Rounds
from draftscope.measure.bench.runner import BenchRun
from draftscope.measure.bench.statistics import Interval
from draftscope.measure.bench.systems import OWN, Case, Label
from draftscope.measure.regret.forms import ComparedTrees, answer, unlike
from draftscope.measure.regret.regret import compared, rows
from draftscope_app.cli import options
from draftscope_app.cli.main import main

SHAPES = {"draft:2": (1, 1), "sampled-tree:4x1": (4, 1)}
NAMES = ("plain", *SHAPES, "ucb")


def run(name: str, kind: str, seconds: float, repeat: int = 0, tokens: int = 10) -> BenchRun:
    ones = np.ones((4, 1), dtype=np.int64)
    rounds = Rounds(ones[:, 0], np.ones((4, 5)), ones * 2, ones, ones.astype(bool), np.zeros(4))
    return BenchRun(Label(OWN, name), Case(kind, 0, ((1, 2),), 1.0), repeat, seconds, [list(range(tokens))], rounds)


def test_the_best_arm_is_named_by_kind_and_policies_are_held_against_it() -> None:
    seconds = {
        "manual": {"plain": 4.0, "draft:2": 1.0, "sampled-tree:4x1": 2.0, "ucb": 1.25},
        "screenplay": {"plain": 4.0, "draft:2": 3.0, "sampled-tree:4x1": 2.0, "ucb": 1.0},
    }
    runs = [run(name, kind, took) for kind, own in seconds.items() for name, took in own.items()]
    found = {(row.kind, row.name): row for row in rows(runs, SHAPES, ["ucb"])}
    assert set(found) == {(kind, name) for kind in seconds for name in (*SHAPES, "ucb")}
    assert [name for (_, name), row in found.items() if row.regret == 0] == ["draft:2", "sampled-tree:4x1"]
    assert found["manual", "ucb"].regret == pytest.approx(0.2)
    assert found["screenplay", "ucb"].regret == pytest.approx(-1.0)  # no fixed arm does as well
    assert found["screenplay", "ucb"].policy and not found["screenplay", "draft:2"].policy
    assert found["manual", "draft:2"].ratio_to_plain == 4.0
    assert found["manual", "sampled-tree:4x1"].ratio_to_best.median == 0.5
    assert found["manual", "draft:2"].tokens_per_round == 2.0


def test_a_speed_is_all_tokens_over_all_seconds() -> None:
    """Not the mean of the repeats' speeds: 1 s and 4 s for ten tokens each are 4 a second, not 6.25."""
    runs = [run(name, "story", took, repeat) for name in NAMES for repeat, took in enumerate((1.0, 4.0))]
    assert {row.tokens_per_s for row in rows(runs, SHAPES, ["ucb"])} == {4.0}


# Deep narrow or wide shallow.

SIX = {"plain": (), "draft:8": (1,) * 8, "draft:2": (1, 1), "2x1x1x1": (2, 1, 1, 1), "3x1": (3, 1), "4x1": (4, 1)}


def test_the_most_unlike_trees_are_held_against_each_other() -> None:
    assert unlike(SIX) == ("2x1x1x1", "4x1")  # a chain is no tree
    assert unlike({"a": (2, 1), "b": (2, 2, 1)}) is None  # one is both deeper and wider
    assert unlike({"a": (2, 1), "chain": (1, 1, 1)}) is None
    assert unlike({"early-exit": None, "plain": ()}) is None


def sure(kind: str, low: float, high: float, pairs: int = 6) -> ComparedTrees:
    return ComparedTrees(kind, 1.0, "2x1x1x1", "4x1", Interval((low + high) / 2, low, high), pairs)


def test_a_few_runs_tell_nothing() -> None:
    """Their interval may be a single point."""
    said = answer([sure("manual", 1.2, 1.2, 5), sure("screenplay", 0.8, 0.8)])
    assert said.startswith("It cannot be told on this pair: manuals")
    assert "[1.20, 1.20], they cannot be told apart by 5 of at least 6 runs; screenplays" in said


@pytest.mark.parametrize(
    ("manual", "screenplay", "verdict", "told"),
    [
        ((1.1, 1.3), (0.7, 0.9), "Yes, on this pair: manuals", "screenplays, 2x1x1x1 over 4x1 0.80 [0.70, 0.90], w"),
        ((0.7, 0.9), (0.7, 0.9), "No, not of manuals on this pair", "manuals, 2x1x1x1 over 4x1 0.80 [0.70, 0.90], w"),
        ((0.9, 1.3), (1.1, 1.2), "No, not of screenplays on this pair", "manuals, 2x1x1x1 over 4x1 1.10 [0.90, 1.30]"),
        ((0.7, 0.9), (1.1, 1.2), "No, not of manuals or of screenplays on", "want deep narrow (95% intervals)."),
        ((1.1, 1.3), (0.9, 1.1), "It cannot be told on this pair", "[0.90, 1.10], they cannot be told apart (95%"),
        ((1.0, 1.3), (0.5, 0.9), "It cannot be told on this pair", "[1.00, 1.30], they cannot be told apart;"),
    ],
)  # fmt: skip
def test_the_answer_is_read_off_the_intervals(
    manual: tuple[float, float], screenplay: tuple[float, float], verdict: str, told: str
) -> None:
    said = answer([sure("manual", *manual), sure("screenplay", *screenplay), sure("story", 0.1, 0.2)])
    assert said.startswith(verdict) and told in said
    assert answer([sure("manual", *manual)]) == "Not asked: the kinds manual and screenplay were not both measured."


def test_trees_are_compared_within_the_same_repeat() -> None:
    """The second repeat is slow for both: their ratio is the same."""
    took = {"plain": (4.0, 9.0), "2x1x1x1": (1.0, 3.0), "4x1": (2.0, 6.0)}
    runs = [run(name, "manual", seconds, n) for name, own in took.items() for n, seconds in enumerate(own)]
    (found,) = compared(runs, {name: SIX[name] for name in took})
    assert found.deep_over_wide == Interval(2.0, 2.0, 2.0)
    assert (found.deep, found.wide, found.pairs, found.wants) == ("2x1x1x1", "4x1", 2, "cannot be told apart")


@pytest.fixture
def regret(pair: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setattr(options, "load", lambda _: pair)

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
        regrets = [row["regret"] for row in saved["rows"] if row["kind"] == kind and not row["policy"]]
        assert min(regrets) == 0
    assert out.strip() == (tmp_path / "regret.md").read_text().strip()
    assert "| sampled-tree:2x1 | 4 | 2 x 2 |" in one_line(out)
    assert not saved["compared"] and "Is it true" not in out
    assert "Regret against the best arm of each kind, T = 1" in out
    assert f"wrote regret.json, regret.md to {tmp_path}." in err


def test_the_question_is_asked_and_answered(regret: Any, tmp_path: Path) -> None:
    arms = ("--arms", "sampled-tree:2x1x1,sampled-tree:3x1", "--policies", "ucb")
    code, out, err = regret(*TINY, "--temperature", "1", "--kinds", "manual,screenplay", *arms)
    assert code == 0, err
    saved = json.loads((tmp_path / "regret.json").read_text())
    found = [
        ComparedTrees(**each | {"deep_over_wide": Interval(**each["deep_over_wide"])}) for each in saved["compared"]
    ]
    assert [each.kind for each in found] == ["manual", "screenplay"]
    assert f"wide shallow ones, T = 1? {answer(found)}" in out
    for each in found:
        ratio = each.deep_over_wide
        assert f"| {each.kind} | {ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] | {each.wants} |" in one_line(
            out
        )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--policies", "ucbb"), "There is no policy 'ucbb'; known are ucb, exp3, thompson."),
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
    regret: Any, pair: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "load", lambda _: Lab(pair.target, pair.draft, pair.tokenizer))
    code, _, err = regret(*TINY, "--arms", "draft:2,eagle3-tree")
    assert code == 2
    assert "The arm 'eagle3-tree' cannot run here: no eagle3 head is loaded" in err
