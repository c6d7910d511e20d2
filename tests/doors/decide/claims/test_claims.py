"""Claims are judged from results alone: made-up rows, and a benchmark's own file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.claims.claim import ClaimVerdict
from draftscope.claims.saved import claim_values, shipped
from draftscope.claims.saved_results import SavedResults, in_folder, read
from draftscope.claims.table import CLAIMS, find
from draftscope.decode.engine import DecodingEngine
from draftscope_app.cli.main import COMMANDS
from tests.support.command import command_line, instead_of_loading


def row(drafter: str = "draft", ratio: tuple[float, float, float] = (1.3, 1.4, 1.5), **more: Any) -> dict[str, Any]:
    """A benchmark's row, of a chain of 4 at T = 0 on code."""
    low, middle, high = ratio
    values: dict[str, Any] = {
        "name": f"{drafter}, gamma 4", "system": "draftscope", "drafter": drafter, "gamma": 4, "shape": None,
        "length": None, "rule": None, "lossy": False, "kind": "code", "temperature": 0.0, "batch": 1, "context": None,
        "runs": 6, "equal_runs": 6, "ratio_to_plain": {"median": middle, "low": low, "high": high},
        "conditional_alpha": [0.6] * 4, "mean_acceptance_length": sum(0.6**k for k in range(5)),
        "prediction": {"tau": 2.3, "gamma_c": 0.4, "v": 1.1, "o": 0.1},
    }  # fmt: skip
    return values | more


def judged(number: int, *rows: dict[str, Any]) -> ClaimVerdict:
    claim = find(number)
    assert claim is not None
    return claim.judged(SavedResults([{"rows": list(rows), "machine": {}}])).verdict


def test_every_claim_has_a_command_that_exists_and_a_rule() -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 25))
    for claim in CLAIMS:
        words = claim.command.split()
        assert words == ["make", "gpu"] or (words[0] == "draftscope" and words[1] in COMMANDS)
        assert claim.rule and (claim.judge is not None or claim.why_not)
        assert not claim.elsewhere or claim.why_not


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.number)
def test_without_results_a_claim_names_its_command(claim: Any) -> None:
    found = claim.judged(SavedResults())
    expected = ClaimVerdict.UNTESTED if claim.number in (12, 23) else ClaimVerdict.UNMEASURED
    assert found.verdict is expected and claim.command in found.change


def test_texts_that_loop_count_only_where_texts_are_compared() -> None:
    """A context of repeated text once let n-grams save over half of the bill."""
    slow, looping = row(ratio=(0.8, 0.9, 1.0)), row(ratio=(3.5, 4.0, 4.5), looping=5)
    assert judged(24, slow, row(ratio=(3.5, 4.0, 4.5), looping=3)) is ClaimVerdict.HOLDS  # half of six runs
    assert judged(24, slow, looping) is ClaimVerdict.FAILS
    assert judged(3, slow, looping) is ClaimVerdict.FAILS
    assert judged(1, slow, looping | {"equal_runs": 5}) is ClaimVerdict.ONLY_IF


def test_texts_that_differ_are_not_called_exact() -> None:
    assert judged(1, row()) is ClaimVerdict.HOLDS
    assert judged(1, row(), row(equal_runs=5)) is ClaimVerdict.ONLY_IF
    assert judged(1, row(), row(equal_runs=0, lossy=True)) is ClaimVerdict.HOLDS


def test_the_formulas_own_value_refutes_the_quoted_one() -> None:
    claim = find(2)
    assert claim is not None
    found = claim.judged(SavedResults([{"rows": [row()], "machine": {}}]))
    assert (
        found.verdict is ClaimVerdict.FAILS
        and "gives 3.69" in found.measured
        and "0.0% in the median" in found.measured
    )


def test_two_to_three_needs_every_kind() -> None:
    fast, slow = row(ratio=(2.1, 2.3, 2.5)), row(ratio=(1.1, 1.2, 1.3), kind="verse")
    assert judged(3, fast) is ClaimVerdict.HOLDS
    assert judged(3, fast, slow) is ClaimVerdict.ONLY_IF
    assert judged(3, slow) is ClaimVerdict.FAILS
    assert judged(3, row(ratio=(1.9, 2.3, 2.5))) is ClaimVerdict.FAILS  # an interval that contains 2 does not reach it


def test_break_even_comes_from_measured_costs() -> None:
    assert judged(4, row()) is ClaimVerdict.FAILS  # cost 1.6 at gamma 4: alpha .38
    dear = row(prediction={"tau": 2.3, "gamma_c": 0.8, "v": 1.2, "o": 0.1})
    assert judged(4, dear) is ClaimVerdict.HOLDS  # cost 2.1: alpha .53


def test_kinds_and_systems_are_compared_interval_against_interval() -> None:
    code, verse = row(ratio=(1.6, 1.7, 1.8)), row(ratio=(1.1, 1.2, 1.3), kind="verse")
    assert judged(6, code, verse) is ClaimVerdict.HOLDS
    assert judged(6, code, row(ratio=(1.5, 1.65, 1.9), kind="verse")) is ClaimVerdict.UNTESTED
    assert judged(6, row(ratio=(0.8, 0.9, 1.0)), verse) is ClaimVerdict.FAILS
    assert judged(10, row("eagle3", (1.6, 1.7, 1.8)), row("lookahead", (0.9, 1.0, 1.1))) is ClaimVerdict.HOLDS
    assert judged(13, row("cascade", (0.9, 1.0, 1.1)), row()) is ClaimVerdict.FAILS
    assert judged(22, row("ssd", (2.6, 2.8, 3.0)), row()) is ClaimVerdict.HOLDS


def test_trees_are_compared_with_chains_of_as_many_nodes() -> None:
    tree = row("sampled-tree", (1.6, 1.7, 1.8), gamma=None, shape=[2, 1])
    assert judged(8, tree, row()) is ClaimVerdict.HOLDS  # four nodes against gamma 4
    assert judged(8, tree | {"shape": [2, 2]}, row()) is ClaimVerdict.UNMEASURED  # six nodes: no such chain


def test_lossy_rules_are_compared_above_temperature_0_only() -> None:
    own, lossy = row(temperature=1.0), row(ratio=(1.6, 1.7, 1.8), temperature=1.0, lossy=True, rule="typical")
    assert judged(14, own, lossy) is ClaimVerdict.HOLDS
    assert judged(14, row(), row(lossy=True, rule="typical")) is ClaimVerdict.UNMEASURED


def test_batches_and_contexts() -> None:
    one, many = row(ratio=(2.1, 2.3, 2.5)), row(ratio=(0.7, 0.8, 0.9), batch=32)
    assert judged(18, one, many) is ClaimVerdict.HOLDS
    assert judged(18, row(), many) is ClaimVerdict.ONLY_IF
    assert judged(18, one) is ClaimVerdict.UNMEASURED
    assert judged(18, one, many, many | {"batch": 64}) is ClaimVerdict.HOLDS
    assert judged(18, one, many, row(batch=64)) is ClaimVerdict.ONLY_IF  # off from 32 on means at 64 too
    assert judged(19, row(context=64), row(context=1024, ratio=(1.6, 1.7, 1.8))) is ClaimVerdict.HOLDS


def test_batches_are_compared_on_the_same_texts_by_the_same_drafters() -> None:
    """At batch 1 another benchmark's best kind of text once stood beside what code and verse gave at batch 4."""
    every = {"rows": [row("eagle3", (2.4, 2.6, 2.8), kind="structured")] * 9, "machine": {}}
    sweep = {
        "rows": [row(), row(batch=64, ratio=(0.5, 0.6, 0.7)), row(ratio=(2.8, 3.0, 3.2), lossy=True)],
        "machine": {},
    }
    claim = find(18)
    assert claim is not None
    found = claim.judged(SavedResults([every, sweep])).measured
    assert (
        "batch 1: draft, gamma 4 on code" in found
        and "batch 64: draft" in found
        and "3.00x" not in found
        and "eagle3" not in found
    )


def test_jitter_needs_longer_pauses_and_more_speed() -> None:
    plain = row("plain", (1.0, 1.0, 1.0), gap_ms={"p50": 5.0, "p99": 6.0, "sd": 0.5})
    rough, smooth = ({"p50": 0.0, "p99": p99, "sd": 4.0} for p99 in (9.0, 5.5))
    assert judged(15, plain, row(gap_ms=rough)) is ClaimVerdict.HOLDS
    assert judged(15, plain, row(gap_ms=smooth)) is ClaimVerdict.FAILS
    assert judged(15, plain, row(gap_ms=rough, ratio=(0.9, 1.1, 1.2))) is ClaimVerdict.FAILS
    verse = {"kind": "verse"}
    assert judged(15, plain, row(gap_ms=rough), plain | verse, row(gap_ms=smooth) | verse) is ClaimVerdict.ONLY_IF
    assert judged(15, row("plain"), row()) is ClaimVerdict.UNMEASURED  # a benchmark of before


def test_fine_tuning_is_judged_by_its_record(tmp_path: Path) -> None:
    claim = find(17)
    assert claim is not None
    for alpha, verdict in ((0.62, ClaimVerdict.HOLDS), (0.51, ClaimVerdict.FAILS)):
        before, after = ({"alpha": [value], "tokens": 9} for value in (0.5, alpha))
        record = {"name": "d", "before": before, "agreement": {"all": after}}
        (tmp_path / "training.json").write_text(json.dumps(record))
        assert claim.judged(in_folder(tmp_path)).verdict is verdict


def test_experts_are_compared_with_the_dense_target() -> None:
    claim = find(21)
    assert claim is not None
    dense = {"rows": [row(), row(temperature=1.0)], "machine": {"target": "llama-draftscope-15m"}}
    slow = {"rows": [row(ratio=(1.0, 1.1, 1.2))], "machine": {"target": "llama-draftscope-experts"}}
    found = claim.judged(SavedResults([dense, slow]))
    assert (
        found.verdict is ClaimVerdict.HOLDS
        and "1 comparison: the speedup is larger in 1 and smaller in 0. The" in found.measured
    )
    assert claim.judged(SavedResults([dense])).verdict is ClaimVerdict.UNMEASURED


def test_policies_lengths_and_bills() -> None:
    policy = {"policy": True, "ratio_to_best": {"low": 0.8, "median": 0.9, "high": 0.95}, "regret": 0.1}
    dynamic, short, bill = find(7), find(20), find(24)
    assert dynamic is not None and short is not None and bill is not None
    assert dynamic.judged(SavedResults(regret={"rows": [policy]})).verdict is ClaimVerdict.FAILS
    assert short.judged(SavedResults(advice={"limits": {"shortest": 9}})).verdict is ClaimVerdict.FAILS
    assert short.judged(SavedResults(advice={"limits": {"shortest": 30}})).verdict is ClaimVerdict.HOLDS
    assert "saves 29%" in bill.judged(SavedResults([{"rows": [row()], "machine": {}}])).measured


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    with pytest.raises(DraftscopeError, match="cannot be read"):
        read(file, "rows")
    file.write_text("[1]")
    with pytest.raises(DraftscopeError, match="'rows'"):
        read(file, "rows")


def test_the_command_reads_a_benchmark(
    capsys: pytest.CaptureFixture[str], pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    instead_of_loading(monkeypatch, pair)
    few = ("--quick", "--tokens", "6", "--repeats", "1", "--kinds", "code", "--drafters", "draft", "--no-peers")
    assert command_line(capsys, "bench")(*few).code == 0
    claims = command_line(capsys, "claims")
    found = {each["number"]: each for each in claims("--json").json}
    assert (
        len(found) == 24
        and found[1]["verdict"] in list(ClaimVerdict)
        and found[1]["verdict"] != "cannot be tested here"
    )
    one = claims("2")
    assert one.code == 0 and "Verdict: does not hold here" in one.out and "target byte-target" in one.out
    assert claims("25").code == 2 and claims("--bench", "missing.json").code == 2
    table = json.dumps(claims().out)
    assert "cannot be tested here" in table and "make gpu" not in table


GPU = assets() / "results/2026-11-26-h200/gpu.md"


def suite_of(text: str) -> dict[str, Any]:
    """The card and the section on graphs of a gpu.md, as gpu.json has them."""
    table = text.partition("## graphs")[2].partition("## ")[0]
    head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    known = [dict(zip(head, row, strict=False)) for row in rows if len(row) > 1]
    numbers = [row | {"wrong": row["wrong"] == "True", "graphs / eager": float(row["graphs / eager"])} for row in known]
    words = dict(
        part.split(" ", 1) for line in text.splitlines() if line.startswith("date ") for part in line.split(", ")
    )
    return {"machine": words, "sections": {"graphs": numbers}}


def test_graphs_are_judged_by_the_file_of_a_card() -> None:
    claim = find(12)
    assert claim is not None
    suite = suite_of(GPU.read_text())
    found = claim.judged(SavedResults(gpu=suite))
    assert found.verdict is ClaimVerdict.HOLDS
    assert found.measured.startswith("On one NVIDIA H200 (2026-11-26) 8 drafters ran 5.6 to 7.5 times as fast")
    (saved,) = (saved for saved in shipped()["claims"] if saved["number"] == 12)
    assert saved == claim_values(claim, found)
    rows = suite["sections"]["graphs"]
    for change, verdict in (({"wrong": True}, ClaimVerdict.FAILS), ({"graphs / eager": 0.9}, ClaimVerdict.ONLY_IF)):
        changed = {"machine": suite["machine"], "sections": {"graphs": [rows[0] | change, *rows[1:]]}}
        assert claim.judged(SavedResults(gpu=changed)).verdict is verdict


def test_the_suite_of_a_card_is_found_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "gpu.json").write_text(json.dumps({"machine": {"device": "a card"}, "sections": {}}))
    evidence = in_folder(tmp_path)
    assert evidence.gpu is not None and evidence.machine == {"device": "a card"}


@pytest.mark.usefixtures("glimpsed")
@pytest.mark.parametrize("name", ["glimpse", "wide-glimpse"])
def test_a_made_up_head_counts_among_the_heads(name: str) -> None:
    assert judged(9, row(name, (4.2, 4.5, 4.8)), row("ngram", (0.9, 1.0, 1.1))) is ClaimVerdict.HOLDS
    assert judged(9, row("ngram", (4.2, 4.5, 4.8))) is ClaimVerdict.UNMEASURED
