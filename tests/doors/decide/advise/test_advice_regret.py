"""The advice as a chooser: what counts as advised, and the program at a tiny size. No clock decides anything here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from draftscope.advise.advice_verdict import Measured, Verdict
from draftscope.advise.candidates import Candidate
from draftscope.advise.question import Question
from draftscope.advise.report import AdviceReport
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import find
from draftscope.measure.bench.rows import Paired
from draftscope.measure.bench.runner import BenchRun
from draftscope.measure.bench.statistics import Interval
from draftscope.measure.bench.systems import PLAIN, Case
from draftscope_app.lab.regret.regret import RegretCell
from tests.programs.advice_regret import GRID_SHAPES, AdviceChooser, app, chosen, grid_candidates, summary
from tests.support.command import instead_of_loading

DRAFT = Candidate("draft", 3)


class ReportOfOne:
    """The part of a report that is read."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.measured = [Measured(DRAFT, Interval(1.5, 1.5, 1.5), 1.32, 2, 4, 96)]
        self.chosen = self.measured[0]
        self.notes = ["a note"]


@pytest.mark.parametrize(
    ("verdict", "label", "predicted", "proven"),
    [
        (Verdict.ON, DRAFT.label, 1.32, 1.5),
        (Verdict.OFF, PLAIN, None, None),
        (Verdict.OPEN, PLAIN, None, None),
    ],
)
def test_what_is_not_turned_on_counts_as_plain(
    pair: DecodingEngine, verdict: Verdict, label: Any, predicted: float | None, proven: float | None
) -> None:
    report: AdviceReport = ReportOfOne(verdict)  # type: ignore[assignment]
    found = chosen(pair, report)
    assert (found.system.label, found.notes) == (label, ["a note"])
    assert found.facts == {"verdict": str(verdict), "predicted": predicted, "proven": proven}


def test_texts_that_loop_do_not_count_unless_all_do(pair: DecodingEngine) -> None:
    def pairs(seconds: float, ids: list[int], number: int) -> Paired:
        case = Case("code", number, ((1, 2),), 0.0)
        return Paired(BenchRun(DRAFT.label, case, 0, seconds, [ids]), BenchRun(PLAIN, case, 0, 1.0, [ids]))

    advice, cell = AdviceChooser(pair, Question(), ("draft",)), RegretCell("code", [], 0.0, 1)
    looping, ordinary = pairs(0.25, [7] * 40, 0), pairs(0.5, list(range(40)), 1)
    assert advice.compare(cell, [looping, ordinary]).median == 2.0
    assert advice.compare(cell, [looping]).median == 4.0


def row(ratio: float, regret: float, predicted: float | None, held_out: float | None = None) -> dict[str, Any]:
    interval = Interval(ratio, ratio, ratio)
    numbers = {"regret": regret, "predicted": predicted, "held_out": held_out}
    return {"policy": True, "ratio_to_plain": interval} | numbers


def test_the_summary_counts_what_reaches_the_aims() -> None:
    fixed = row(1.6, 0.0, None) | {"policy": False}
    said = summary(pd.DataFrame([fixed, row(1.6, 0.0, 1.65, 0.02), row(0.8, 0.5, 1.2, 0.4), row(1.0, 0.04, None)]))
    assert "2 of 3 cells, 18.0% in the mean and 50.0% at most" in said and "1 of 3 are slower" in said
    assert "1 of 2 predictions" in said and "1 of 2 cells, 21.0% in the mean" in said
    assert summary(pd.DataFrame([fixed])) == "No kind of text was measured."


def test_the_grid_has_chains_trees_and_drafters_that_choose() -> None:
    found = grid_candidates([find("draft"), find("sampled-tree"), find("suffix")])
    assert {each.shape for each in found if each.drafter == "sampled-tree"} == set(GRID_SHAPES)
    assert sum(each.drafter == "draft" for each in found) == 6 and any(each.drafter == "suffix" for each in found)


def test_the_program_saves_a_row_for_every_cell(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    instead_of_loading(monkeypatch, pair)
    tiny = ("--tokens", "8", "--repeats", "1", "--each", "1", "--drafters", "ngram", "--temperature", "1")

    def run(*arguments: str) -> str:
        assert app([*tiny, *arguments, "--out", str(tmp_path)], standalone_mode=False) == 0
        return capsys.readouterr().out

    done = run("--kinds", "code")
    rows = json.loads((tmp_path / "advice-regret.json").read_text(encoding="utf-8"))["rows"]
    (advised,) = [row for row in rows if row["policy"]]
    assert advised["kind"] == "code" and advised["verdict"] and advised["regret"] >= 0
    assert advised["regret"] == pytest.approx(1 - advised["ratio_to_plain"]["median"] / advised["best_ratio"]["median"])
    assert len(rows) >= 8 and "plain" in {row["name"] for row in rows}
    assert "Regret is at most 5%" in done
    assert "2 kinds of text were not measured" in run("--kinds", "code,verse", "--seconds", "0")
