"""Charts of the experiments are drawn from results alone: made-up rows, and the file of verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftscope.claims import charts, saved
from draftscope.claims.charts import Line
from draftscope.claims.experiments import EXPERIMENTS, find
from draftscope.claims.saved_results import SavedResults
from tests.doors.decide.claims.test_claims import row


def benches(*rows: dict[str, Any], **machine: str) -> SavedResults:
    own = [each | {"system": "draftscope"} for each in rows]
    return SavedResults([{"rows": own, "machine": {"target": "t", "draft": "d"} | machine}])


def points(line: Line) -> list[tuple[Any, float]]:
    return list(zip(line.x, line.y, strict=True))


def test_every_experiment_is_that_of_a_claim_and_says_so_without_results() -> None:
    assert len({each.name for each in EXPERIMENTS}) == len(EXPERIMENTS)
    for each in EXPERIMENTS:
        assert each.commands[0] == each.claim.command and each.claim.number == each.number
        assert find(each.name) is each and each.drawn(SavedResults()) is None
        assert each.chart is not None or each.claim.why_not


@pytest.mark.parametrize(("field", "draw"), [("batch", charts.by_batch), ("context", charts.by_context)])
def test_a_sweep_is_a_line_for_each_drafter_with_the_ends_of_its_kinds(field: str, draw: Any) -> None:
    rows = [
        row(ratio=(1.0, ratio, 2.0), kind=kind, **{field: value})
        for value, by_kind in ((1, {"code": 1.6, "verse": 1.2}), (16, {"code": 0.8, "verse": 0.6}))
        for kind, ratio in by_kind.items()
    ]
    chart = draw(benches(*rows, row("ngram", **{field: 16})))
    line = chart.lines[0]
    assert line.name == "draft, gamma 4, T = 0" and points(line) == [(1, 1.4), (16, pytest.approx(0.7))]
    assert (line.low, line.high) == ([1.2, 0.6], [1.6, 0.8]) and chart.ratio
    assert draw(benches(row(), row("ngram"))) is None  # no sweep


def test_what_models_keep_is_drawn_by_model() -> None:
    def kept(model: str, tokens: int, size: int) -> dict[str, Any]:
        return {"model": model, "role": "draft", "tokens": tokens, "bytes": size, "constant": model == "mamba"}

    bench = {"rows": [row()], "machine": {}, "kept": [kept("small", n, 10 * n) for n in (8, 4)]}
    other = {"rows": [row()], "machine": {}, "kept": [kept("mamba", n, 50) for n in (4, 8)]}
    chart = charts.by_memory(SavedResults([bench, other]))
    assert chart is not None
    assert [points(line) for line in chart.lines] == [[(4, 40), (8, 80)], [(4, 50), (8, 50)]]


def test_an_answers_length_is_modelled_and_what_was_run_is_beside_it() -> None:
    tau = {"median": 2.0, "low": 1.8, "high": 2.2}
    own = {"gamma": 3, "contexts": [32, 256], "cost": [1.25, 1.4], "plain_ms": [1.0, 2.0], "prompt": 40,
           "prefill_ms": 0.0, "extra_ms": 4.0}  # fmt: skip
    ran = {"name": "draft, gamma 3", "tokens": 96, "ratio": {"median": 1.5, "low": 1.4, "high": 1.6}}
    surface = {"drafter": "draft", "gammas": [3], "tau": [tau], "by_context": own}
    chart = charts.by_length(SavedResults(advice={"limits": {}, "surface": surface, "measured": [ran]}))
    assert chart is not None
    modelled, measured = chart.lines
    assert modelled.modelled and modelled.y[2] == pytest.approx(16 / (16 * 1.25 / 2 + 4 * 32 / 40))
    assert list(modelled.y) == sorted(modelled.y) and modelled.low[2] < modelled.y[2] < modelled.high[2]
    assert points(measured) == [(96, 1.5)] and not measured.modelled


def test_experts_that_were_woken_are_beside_the_uniform_formula() -> None:
    woken = [{"rows": n, "touched": t, "of": 16, "active": 2, "forwards": 8} for n, t in ((1, 2.0), (5, 6.5))]
    chart = charts.experts_woken(SavedResults([{"rows": [row()], "machine": {"target": "sparse"}, "woken": woken}]))
    assert chart is not None and "forwards of sparse" in chart.note  # other charts of a file are of other targets
    counted, uniform = chart.lines
    assert points(counted) == [(1, 2.0), (5, 6.5)]
    assert uniform.modelled and uniform.y == pytest.approx([2.0, 16 * (1 - (7 / 8) ** 5)])


def test_experts_are_beside_the_same_settings_on_the_dense_target() -> None:
    dense = {"rows": [row(), row("ngram")], "machine": {"target": "t"}}
    sparse = {"rows": [row(ratio=(1.0, 1.1, 1.2))], "machine": {"target": "t-experts"}}
    chart = charts.experts_speed(SavedResults([dense, sparse]))
    assert chart is not None and [points(line) for line in chart.lines] == [
        [("draft, code, T = 0", 1.4)], [("draft, code, T = 0", 1.1)],
    ]  # fmt: skip


def test_a_ladder_has_drafts_of_several_sizes_and_other_drafters() -> None:
    small = {"rows": [row(), row("eagle3"), row(context=64)], "machine": {"target": "t", "draft": "small"}}
    tiny = {"rows": [row(prediction={"gamma_c": 0.1, "tau": 1.8})], "machine": {"target": "t", "draft": "tiny"}}
    chart = charts.ladder(SavedResults([small, tiny]))
    assert chart is not None
    assert [(line.name, line.x, line.text) for line in chart.lines] == [
        ("small", [0.4], ["1.40x"]), ("eagle3", [0.4], ["1.40x"]), ("tiny", [0.1], ["1.40x"]),
    ]  # fmt: skip
    assert [list(line.y) for line in chart.lines] == [[2.3], [2.3], [1.8]]  # tau, which counts idle rounds too
    assert charts.ladder(benches(row())) is None


def test_jitter_and_cascade_compare_the_best_of_each_kind() -> None:
    gaps = {"p50": 0.0, "p99": 9.0, "sd": 4.0}
    plain = row("plain", (1.0, 1.0, 1.0), gap_ms={"p50": 5.0, "p99": 6.0, "sd": 0.5})
    slow = row("ngram", (0.8, 0.9, 1.0), gap_ms=gaps | {"p99": 7.0})
    chart = charts.jitter(benches(plain, row(gap_ms=gaps), slow))
    assert chart is not None
    assert [line.y for line in chart.lines] == [[6.0], [9.0], [5.0], [0.0]] and chart.lines[1].text == [
        "draft, gamma 4"
    ]
    both = charts.cascade(benches(row(), row("cascade", (1.1, 1.2, 1.3)), row("cascade", (1.0, 1.1, 1.2), gamma=2)))
    assert both is not None and [line.y for line in both.lines] == [[1.2], [1.4]]
    assert charts.cascade(benches(row())) is None


def test_fine_tuning_is_drawn_by_position() -> None:
    before, after = {"alpha": [0.5, 0.4], "tokens": 9}, {"alpha": [0.6, 0.5], "tokens": 9}
    chart = charts.fine_tuning(SavedResults(continued={"name": "d", "before": before, "agreement": {"all": after}}))
    assert chart is not None and [points(line) for line in chart.lines] == [[(1, 0.5), (2, 0.4)], [(1, 0.6), (2, 0.5)]]
    assert [line.name for line in chart.lines] == [
        "before: acceptance 0.450",
        "after: acceptance 0.550",
    ] and chart.joined


def test_fine_tuning_of_a_draft_model_compares_both_measures() -> None:
    """A curve over its only position was two points in an empty plot."""
    before, after = ({"alpha": [a], "greedy": [g], "tokens": 9} for a, g in ((0.5, 0.4), (0.6, 0.45)))
    chart = charts.fine_tuning(SavedResults(continued={"name": "d", "before": before, "agreement": {"all": after}}))
    assert chart is not None and not chart.joined
    assert [points(line) for line in chart.lines] == [
        [("acceptance", 0.5), ("same most probable token", 0.4)],
        [("acceptance", 0.6), ("same most probable token", 0.45)],
    ]


def test_charts_are_saved_with_the_verdicts(tmp_path: Path) -> None:
    saved.save(tmp_path / saved.FILE, benches(row(), row(batch=4)))
    found = {each["name"]: each for each in json.loads((tmp_path / saved.FILE).read_text())["experiments"]}
    assert list(found) == [each.name for each in EXPERIMENTS]
    assert found["Batch"]["chart"]["lines"][0]["x"] == [1, 4] and found["Cascade"]["chart"] is None
