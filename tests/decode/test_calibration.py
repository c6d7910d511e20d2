"""Calibration: figures are fitted and looked up right, belong to what they were measured on, and are redone after it.

No test asserts a time: clocks are replaced by known costs.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from draftscope.base import costs
from draftscope.base.cores import Company, OtherCores
from draftscope.base.costs import Drafting, Verify
from draftscope.base.costs import impossible as named_impossible  # before anything replaces it
from draftscope.base.progress import Pace, Progress
from draftscope.base.steps import last
from draftscope.decode import calibration
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.row_rounding import compare_rows
from tests.support.models import made_calibration


def test_costs_between_the_measured_points() -> None:
    found = made_calibration()
    assert found.verify_ms(1) == 4
    assert found.verify_ms(2) == 4.5
    assert found.verify_ms(6) == 6.5
    assert found.verify_ms(18) == 2 * found.verify_ms(9)  # beyond the widest: in proportion
    assert found.verify_ms(1, batch=2) == 6
    assert found.verify_ms(1, context=200) == 5
    assert found.verify_ms(1, batch=4, context=200) == 12
    assert found.verify_ms(1, batch=2, context=200) == (5 + 12) / 2
    short = Verify(width=1, batch=4, context=50, ms=6)
    batched = found.model_copy(update={"verify": [*found.verify, short]})  # what a batch was measured with goes before
    assert [batched.verify_ms(3, batch=4, context=each) for each in (50, 75, 100, 200)] == [7, 8, 9, 13]


def test_predicted_speedup_is_tau_over_the_cost_of_a_round() -> None:
    found = made_calibration()
    assert found.plain_ms == 5
    assert found.c("draft") == 0.1
    assert found.v(5) == pytest.approx(6 / 5)
    assert found.round_cost("draft", 0) == 1
    assert found.round_cost("draft", 4) == pytest.approx((4 * 0.5 + 6 + 1 + 4 * 0.25) / 5)
    assert found.round_cost("draft", 4, batch=4) == pytest.approx((4 * 0.5 + 10 + 1 + 4 * 0.25) / (8 + 1))
    assert found.round_cost("draft", 4, context=200) == pytest.approx((4 * 0.5 + 6 + 1 + 1 + 4 * 0.25) / (5 + 1))
    assert found.speedup("draft", 4, tau=3.0) == pytest.approx(3.0 / 2.0)


def test_what_a_round_costs_in_a_batch_lies_on_a_line() -> None:
    figures = {1: (0.5, 1.0, 0.25), 3: (0.7, 3.0, 0.25), 5: (0.7, 9.0, 0.0)}
    own = [Drafting(batch=batch, step=s, overhead=o, accept_step=j) for batch, (s, o, j) in figures.items()]
    plain = [Drafting(batch=batch, step=0, overhead=batch, accept_step=0) for batch in (1, 5)]
    found = made_calibration(drafting={"plain": plain, "draft": own})
    for batch, (step, overhead, verify) in figures.items() | {2: (0.6, 2.0, 0.25), 4: (0.7, 6.0, 0.125)}.items():
        there = found.rounds_of("draft", batch)
        assert (there.step, there.overhead, there.accept_step) == pytest.approx((step, overhead, verify))
    beyond = found.rounds_of("draft", 10)  # along the last two; no cost is below nothing
    assert (beyond.step, beyond.overhead, beyond.accept_step) == pytest.approx((0.7, 24.0, 0.0))
    assert found.round_ms("plain", 0, 0, batch=3) == found.verify_ms(1, 3) + 3
    assert found.round_cost("draft", 2, batch=3) == pytest.approx(
        (2 * 0.7 + 3.0 + 2 * 0.25 + found.verify_ms(3, 3)) / (found.verify_ms(1, 3) + 3)
    )


def test_a_fit_finds_the_line_and_a_drafter_that_never_drafts_costs_nothing_more() -> None:
    def stages(gamma: int) -> dict[str, float]:
        return {"propose": 0.2 + 0.7 * gamma, "accept": 0.1 * gamma, "commit": 0.25, "host": 0.05, "verify": 99.0}

    rounds = {("draft", 2, gamma): [stages(gamma)] * 3 for gamma in calibration.GAMMAS}
    rounds |= {("draft", 1, gamma): [stages(9)] for gamma in calibration.GAMMAS}
    found = calibration._fit(rounds, "draft", 2)
    assert (found.step, found.overhead, found.accept_step) == pytest.approx((0.7, 0.5, 0.1))
    rounds["plain", 2, 0] = [stages(0)]
    nothing = calibration._fit(rounds | {("ngram", 2, 1): []}, "ngram", 2)
    assert (nothing.step, nothing.overhead, nothing.accept_step) == pytest.approx((0, 0.5, 0))


def test_kept_figures_come_back_only_for_what_they_belong_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    found = made_calibration()
    assert costs.load_saved(found.measured_for) is None
    path = costs.save(found)
    assert path is not None
    assert costs.load_saved(found.measured_for) == found
    for change in ({"torch": "3"}, {"threads": 2}, {"draft_hash": "x"}, {"dtype": "bfloat16"}):
        assert costs.load_saved(found.measured_for.model_copy(update=change)) is None
    path.write_text(path.read_text()[:-20])
    assert costs.load_saved(found.measured_for) is None
    path.write_bytes(b"\xff\xfe no text")
    assert costs.load_saved(found.measured_for) is None


def test_a_folder_that_cannot_be_written_loses_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "file"))
    assert costs.save(made_calibration()) is None


@pytest.mark.usefixtures("little_calibrated")
def test_of_one_text_only_batches_of_one_are_measured(pair: DecodingEngine) -> None:
    heard: list[Progress] = []
    found = last(calibration.calibration_of(pair, heard.append, ["hybrid"], one_text=True))
    assert set(found.drafting) == {"plain", "eagle3", "ngram"}  # the sources that it chooses between
    assert {point.batch for point in found.verify} == {1} == {each.batch for each in found.drafting["ngram"]}
    count = len(heard)
    assert last(calibration.calibration_of(pair, heard.append, ["ngram"], one_text=True)) == found
    assert len(heard) == count  # not measured again
    whole = last(calibration.calibration_of(pair, heard.append, ["ngram"]))
    assert {point.batch for point in whole.verify} == {1, 2}
    assert last(calibration.calibration_of(pair, heard.append, ["ngram"], one_text=True)) == whole


@pytest.mark.usefixtures("little_calibrated")
def test_measuring_a_pair_and_finding_it_again(pair: DecodingEngine) -> None:
    heard: list[Progress] = []
    first = last(calibration.calibration_of(pair, heard.append, ["suffix-tree"]))
    assert set(first.drafting) == {"plain", "suffix"}  # a drafter alone
    found = last(calibration.calibration_of(pair, heard.append))
    assert found.verify == first.verify and found.drafting["suffix"] == first.drafting["suffix"]  # others are added
    assert len({each.doing for each in heard}) > 5 and all(0 < each.share < 1 for each in heard)
    count = len(heard)
    assert {(p.width, p.batch) for p in found.verify} == {(w, b) for w in (1, 2, 5) for b in (1, 2)}
    assert {p.context for p in found.verify if p.batch == 2} == {calibration.CONTEXTS[0], found.context}
    assert {"draft", "ngram", "eagle3", "medusa", "block"} <= set(found.drafting)
    assert "oracle" not in found.drafting
    assert all([own.batch for own in each] == [1, 2] for each in found.drafting.values())
    assert found.round_cost("draft", 4) > found.v(5) > 0
    assert last(calibration.calibration_of(pair, heard.append)) == found
    assert len(heard) == count  # not measured again
    costs.save(found.model_copy(update={"drafting": {"draft": found.drafting["draft"]}}))
    assert "eagle3" in last(calibration.calibration_of(pair, heard.append)).drafting  # the head came later


@pytest.fixture
def row_by_row(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forward whose rows cannot depend on each other: a row's logits are its own token."""
    right = pair.target.run

    def run(**call: torch.Tensor) -> object:
        out = right(**call)  # type: ignore[operator]
        out.logits[:] = call["input_ids"][:, -out.logits.shape[1] :, None].float()
        return out

    monkeypatch.setattr(pair.target, "run", run)


@pytest.mark.usefixtures("row_by_row")
def test_rows_that_depend_on_their_number_are_found(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(each.differing == 0 and each.largest == 0 and each.rows > 1 for each in last(compare_rows(pair.target)))
    right = pair.target.run

    def rounded(**call: torch.Tensor) -> object:
        out = right(**call)  # type: ignore[operator]
        if call["input_ids"].shape[1] in (5, 9):
            out.logits[:, -1, 0] += 0.25  # not the first row
        return out

    monkeypatch.setattr(pair.target, "run", rounded)
    found = {each.width: each for each in last(compare_rows(pair.target)) if not each.branches}
    assert [width for width, each in found.items() if each.differing] == [5, 9]
    assert found[9].differing == 2 and found[9].largest == pytest.approx(0.25)  # a row in each of two contexts


@pytest.mark.usefixtures("row_by_row")
def test_rows_of_a_tree_that_get_other_bits_are_found(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 0 and every chain are right; what depends on gaps between the slots of a path shows in a tree only."""
    right = pair.target.run

    def gapped(**call: torch.Tensor) -> object:
        out, mask = right(**call), call["attention_mask"]  # type: ignore[operator]
        if mask is not None:
            seen = mask[0, 0] if mask.dtype == torch.bool else mask[0, 0] == 0
            gaps = (seen[:, :-1] < seen[:, 1:]).any(-1)  # a column that is seen after one that is not
            out.logits[0, gaps[-out.logits.shape[1] :], 0] += 0.125
        return out

    monkeypatch.setattr(pair.target, "run", gapped)
    found = last(compare_rows(pair.target))
    assert [each.differing for each in found if not each.branches] == [0] * 6
    tree = found[-1]
    assert tree.branches and 0 < tree.differing < tree.rows
    assert tree.largest == pytest.approx(0.125)


def test_v_never_falls_and_is_1_for_one_row_whatever_noise_says() -> None:
    """A curve whose forwards of several rows came out faster than one of a single row."""
    noisy = {1: 6.0, 2: 5.0, 3: 5.4, 5: 5.2, 9: 7.0, 17: 6.8}
    verify = [Verify(width=w, batch=1, context=100, ms=ms, noise=0.3) for w, ms in noisy.items()]
    found = made_calibration(verify=verify)
    curve = found.curve
    assert curve.v[0] == 1 and curve.v == sorted(curve.v)
    assert curve.widths == list(noisy) and curve.noise[0] == 0
    assert curve.noise[1] > curve.v[1] - 1  # the noise is larger than the effect
    costs_ = [found.round_cost("draft", gamma) for gamma in range(1, 17)]
    assert costs_ == sorted(costs_) and costs_[0] > 0.5


def test_no_fitted_cost_is_negative() -> None:
    """Times that rise so steeply that a line would start below 0."""
    assert calibration._line([(1, 0.1), (3, 0.1), (5, 0.1), (8, 9.0)])[1] == 0.0
    slope, intercept = calibration._line([(1, 5.0), (3, 4.0), (8, 1.0)])
    assert (slope, intercept) == (0.0, pytest.approx(10 / 3))


def test_a_longer_context_never_costs_less() -> None:
    verify = [Verify(width=1, batch=1, context=s, ms=ms) for s, ms in ((50, 5.0), (100, 4.0), (300, 4.5), (900, 4.2))]
    found = made_calibration(verify=verify)
    times = [found.verify_ms(1, context=s) for s in (50, 100, 200, 300, 600, 900)]
    assert times == sorted(times)


# company


def made_machine(monkeypatch: pytest.MonkeyPatch, quiet_after: float) -> Callable[[], int]:
    """A made-up machine of two cores, on both of which a forward runs: others take one until `quiet_after` laps, and
    every forward then takes three times as long. Returns the number of laps so far."""
    laps = 0

    class Meter:
        def lap(self) -> float:
            nonlocal laps
            laps += 1
            return 1.0 if laps <= quiet_after else 0.0

    def timed(work: Callable[[], object], _: torch.device) -> float:
        return cast(float, work()) * (3.0 if laps < quiet_after else 1.0)

    monkeypatch.setattr(calibration, "OtherCores", Meter)
    monkeypatch.setattr(calibration, "_timed", timed)
    monkeypatch.setattr(calibration, "_threads", lambda _: 2)
    monkeypatch.setattr("draftscope.base.cores.cores", lambda: 2)
    return lambda: laps


@pytest.mark.parametrize(
    ("repeats", "quiet_after", "believed"), [(9, 0, True), (9, 4, True), (5, 3, True), (5, 99, False)]
)
def test_passes_beside_others_are_measured_again(
    monkeypatch: pytest.MonkeyPatch, repeats: int, quiet_after: float, believed: bool
) -> None:
    laps = made_machine(monkeypatch, quiet_after)
    timed = calibration.Interleaved([lambda: 1.0, lambda: 2.0], torch.device("cpu"))
    found = [ms for ms, _ in last(timed.measured(repeats))]
    assert (found == [1.0, 2.0]) == believed
    assert Company.of(timed.laps, 2).disturbs != believed
    assert laps() == (repeats + quiet_after if believed else repeats + (repeats + 1) // 2)


def test_a_burst_that_no_meter_sees_does_not_count() -> None:
    ms, error = calibration.low([1.0, 1.1, 0.9, 1.0, 7.0, 8.0, 6.0, 9.0, 7.0])  # five of nine: the median is 6
    assert 0.9 <= ms <= 1.0 and 0 < error < 0.2


@pytest.mark.usefixtures("little_calibrated")
def test_what_was_disturbed_is_said_and_not_kept_over_what_was_not(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("draftscope.decode.row_rounding.CHAINS", (1,))
    monkeypatch.setattr("draftscope.decode.row_rounding.CONTEXTS", (11,))
    quiet = last(calibration.calibration_of(pair, names=["ngram"]))
    assert quiet.doubts == [] and costs.load_saved(quiet.measured_for) == quiet
    monkeypatch.setattr(calibration, "OtherCores", lambda: SimpleNamespace(lap=lambda: 1.0))
    monkeypatch.setattr(calibration, "_threads", lambda _: 2)
    monkeypatch.setattr("draftscope.base.cores.cores", lambda: 2)
    busy = last(calibration.calibration_of(pair, names=["ngram"], again=True))
    assert [each.split(" were timed, ")[0] for each in busy.doubts] == ["While forwards", "While rounds"]
    assert "other processes kept 1.0 of 2 cores busy, and 2 were needed" in busy.doubts[0]
    assert costs.load_saved(quiet.measured_for) == quiet


@pytest.mark.parametrize(
    ("others", "threads", "cores", "disturbs"),
    [(1.0, 2, 2, True), (1.0, 1, 2, False), (0.2, 2, 2, False), (3.0, 2, 16, False), (15.0, 2, 16, True)],
)
def test_others_disturb_only_where_they_take_a_core_that_is_needed(
    others: float, threads: int, cores: int, disturbs: bool
) -> None:
    assert Company(others, threads, cores).disturbs == disturbs


def test_a_process_that_spins_is_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        try:
            meter = OtherCores()
            threading.Event().wait(0.5)
            assert meter.lap() > 0.25
        finally:
            spinning.kill()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"verify": [(1, 1, 40.0), (2, 1, 3.0), (3, 1, 3.1)]}, ["of 2 rows at batch 1 took 3.00 ms", "of 3 rows"]),
        ({"verify": [(1, 1, 10.0), (9, 1, 14.0), (1, 2, 3.0)]}, ["of 1 row at batch 2 took 3.00 ms"]),
        ({"verify": [(1, 1, 10.0), (2, 1, 9.3), (3, 1, 9.9)]}, []),  # noise
        ({"drafting": {"plain": (0.0, 1.0), "draft": (9.0, 1.0)}}, ["A draft step of draft took 9.00 ms"]),
        ({"drafting": {"plain": (0.0, 1.0), "draft": (0.5, 35.0)}}, ["A round of draft took 35.00 ms beside"]),
        ({"drafting": {"plain": (0.0, 12.0), "draft": (0.5, 1.0)}}, ["A round of plain decoding took 12.00 ms beside"]),
    ],
)
def test_impossible_figures_are_named(changes: dict[str, Any], words: list[str]) -> None:
    made: dict[str, object] = {}
    if "verify" in changes:
        made["verify"] = [Verify(width=w, batch=b, context=100, ms=ms, noise=0.1) for w, b, ms in changes["verify"]]
    if "drafting" in changes:
        made["drafting"] = {
            name: [Drafting(batch=1, step=step, overhead=rest, accept_step=0.0)]
            for name, (step, rest) in changes["drafting"].items()
        }
    found = made_calibration(**made)
    said = named_impossible(found, {"draft": found.target_bytes // 20})
    assert len(said) == len(words) and all(word in sentence for word, sentence in zip(words, said, strict=True))
    as_large = named_impossible(found, {"draft": found.target_bytes})
    assert as_large == [each for each in said if "draft step" not in each]


def test_the_time_left_is_that_of_the_work_that_is_left() -> None:
    now, heard = [0.0], list[Progress]()
    pace = Pace(heard.append, lambda: now[0])
    pace.begin(10, lambda unit: 5 * unit)
    for _ in range(10):
        now[0] += 2.0
        pace.advance(1, "forwards")
    assert [each.seconds_left for each in heard] == [28.0 - 2 * done for done in range(10)]
    pace.begin(5)
    for _ in range(5):
        now[0] += 2.0
        pace.advance(1, "rounds")
    assert heard[-1] == Progress("rounds", 0.99, 0.0) and heard[-2].words == "rounds, 93%, a few seconds left"
