"""The advice against a grid: what counts as advised, and the command at a tiny size. No clock decides anything here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftscope.advise.candidates import Candidate
from draftscope.advise.question import Question
from draftscope.advise.regret import GRID_SHAPES, RegretCell, _compared, grid, held_out
from draftscope.advise.regret_report import summary
from draftscope.advise.report import AdviceReport
from draftscope.advise.verdict import Measured, Verdict
from draftscope.decode.lab import Lab
from draftscope.drafters import find
from draftscope.measure.bench.runner import BenchRun
from draftscope.measure.bench.statistics import Interval
from draftscope.measure.bench.systems import PLAIN, Case, Label
from tests.support.command import command_line, instead_of_loading


def measured(name: str, gamma: int, ratio: float, predicted: float = 0.0) -> Measured:
    return Measured(Candidate(name, gamma), Interval(ratio, ratio, ratio), predicted, 2, 4, 96)


class Advice:
    """The part of a report that is read."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict


def compared(verdict: Verdict, chosen: Measured | None) -> RegretCell:
    ran = [measured("draft", 3, 1.2), measured("draft", 4, 1.6), measured("ngram", 2, 0.8)]
    report: AdviceReport = Advice(verdict)  # type: ignore[assignment]
    return _compared(Question(), "code", report, chosen, ran, ())


def test_regret_is_against_the_best_of_the_grid() -> None:
    found = compared(Verdict.ON, measured("draft", 3, 1.5, 1.32))
    assert (found.best, found.regret) == ("draft, gamma 4", pytest.approx(0.25))
    assert found.ratio.median == 1.2 and found.missed == pytest.approx(0.1)  # the grid's runs, not the advice's own


@pytest.mark.parametrize("verdict", [Verdict.OFF, Verdict.OPEN])
def test_what_is_not_turned_on_counts_as_plain(verdict: Verdict) -> None:
    found = compared(verdict, None)
    assert (found.advised, found.ratio.median, found.missed) == ("plain", 1.0, None)
    assert found.regret == pytest.approx(1 - 1 / 1.6)


SLOW, LUCKY = Candidate("draft", 1), Candidate("draft", 2)


def runs(speedups: dict[Label, list[float]]) -> list[BenchRun]:
    """One prompt, a run for each repeat; the ids do not loop."""
    case = Case("code", 0, ((1, 2),), 0.0)
    return [
        BenchRun(label, case, repeat, 1 / ratio, [list(range(8))])
        for label, ratios in speedups.items()
        for repeat, ratio in enumerate(ratios)
    ]


def test_held_out_regret_does_not_choose_the_best_by_the_runs_that_measure_it() -> None:
    own = runs({PLAIN: [1, 1, 1, 1], SLOW.label: [1.2, 1.2, 1.2, 1.2], LUCKY.label: [1.6, 1.0, 1.6, 1.0]})
    found = held_out(Question(), own, [SLOW, LUCKY], SLOW.name)
    assert found == pytest.approx((1 - 1.2 / 1.0 + 0) / 2)  # even choose the lucky one, odd what was advised
    assert held_out(Question(), own[::4], [SLOW, LUCKY], SLOW.name) is None  # one repeat


def test_the_summary_counts_what_reaches_the_aims() -> None:
    cells = [
        compared(Verdict.ON, measured("draft", 4, 1.5, 1.65)),
        compared(Verdict.ON, measured("ngram", 2, 1.1, 1.2)),
    ]
    said = summary(cells)
    assert "1 of 2 cells" in said and "1 of 2 are slower" in said and "1 of 2 predictions" in said


def test_the_grid_has_chains_trees_and_drafters_that_choose() -> None:
    found = grid([find("draft"), find("sampled-tree"), find("suffix")])
    assert {each.shape for each in found if each.drafter == "sampled-tree"} == set(GRID_SHAPES)
    assert sum(each.drafter == "draft" for each in found) == 6 and any(each.drafter == "suffix" for each in found)


def test_the_command_saves_a_row_for_every_cell(
    pair: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    instead_of_loading(monkeypatch, pair)
    cli = command_line(capsys, "advice-regret")
    tiny = ("--tokens", "8", "--repeats", "1", "--each", "1", "--drafters", "ngram", "--temperature", "1")
    done = cli(*tiny, "--kinds", "code", "--out", tmp_path)
    assert done.code == 0, done.err
    saved = json.loads((tmp_path / "advice-regret.json").read_text(encoding="utf-8"))
    assert [cell["kind"] for cell in saved["cells"]] == ["code"]
    for cell in saved["cells"]:
        assert cell["regret"] == pytest.approx(1 - cell["ratio"]["median"] / cell["best_ratio"]["median"])
        assert cell["settings"] >= 6 and cell["regret"] >= 0
    assert "Regret is at most 5%" in done.out
    shown = cli(*tiny, "--kinds", "code,verse", "--out", tmp_path, "--seconds", "0")
    assert shown.code == 0 and "2 kinds of text were not measured" in shown.err
