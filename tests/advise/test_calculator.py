"""The calculator: a calibration's prediction, the same curve in the browser, terms from measurements and recordings."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from draftscope.advise.calculator import Terms, best, calibrated_terms, curve, recorded_terms
from draftscope.base.assets import assets
from draftscope.trace import files
from tests.conftest import made_calibration
from tests.support.node import call

TERMS = Terms("draft", (0.6, 0.5, 0.45), 0.07, 0.08, (1, 2, 3, 5, 9, 17), (1.0, 1.1, 1.2, 1.4, 1.9, 3.0), before=2.0)


def test_it_predicts_what_the_calibration_does() -> None:
    found, acceptance = made_calibration(), (0.7, 0.5)
    terms = calibrated_terms(found, "draft", acceptance)
    for point in curve(terms)[1:]:
        tau = 1 + sum(0.7 * 0.5 ** (place - 1) for place in range(1, point.gamma + 1))
        assert point.tau == pytest.approx(tau)
        assert point.ratio == pytest.approx(found.speedup("draft", point.gamma, tau))


@pytest.mark.parametrize("requests", [1, 2, 8])
@pytest.mark.parametrize("length", [16, 512])
def test_the_page_draws_the_same_curve(requests: int, length: int) -> None:
    points = curve(TERMS, requests, length)
    (drawn,) = call(["decide/calculator.js"], [("curve", [asdict(TERMS), requests, length])])
    assert [list(each) for each in drawn] == [["gamma", "tau", "cost", "ratio"]] * len(points)
    for ours, theirs in zip(points, drawn, strict=True):
        assert list(asdict(ours).values()) == pytest.approx(list(theirs.values()))


def test_a_slider_left_alone_changes_nothing_and_the_headline_is_the_best_point() -> None:
    cases = [("changed", [asdict(TERMS), 0.6, 0.07, 1]), ("changed", [asdict(TERMS), 0.9, 0.0, 2])]
    same, other = call(["decide/calculator.js"], cases)
    assert same["v"] == pytest.approx(TERMS.v) and same["acceptance"] == pytest.approx(TERMS.acceptance)
    assert other["acceptance"][0] == pytest.approx(0.9) and other["acceptance"] == sorted(other["acceptance"])[::-1]
    assert all(0 <= each <= 1 for each in other["acceptance"]) and other["v"][1] == pytest.approx(1.2)
    on, off = curve(TERMS), curve(replace(TERMS, acceptance=(0.05,)))
    said = call(["decide/calculator.js"], [("headline", [[asdict(each) for each in points]]) for points in (on, off)])
    assert said[0] == f"Turn it on: about {best(on).ratio:.2f} times plain decoding, {best(on).gamma} tokens a round"
    assert best(off).gamma == 0 and f"at best about {max(each.ratio for each in off[1:]):.2f}" in said[1]


def test_more_requests_never_help_and_rows_beyond_the_known_grow_by_the_row() -> None:
    ratios = [best(curve(TERMS, requests)).ratio for requests in (1, 2, 4, 16)]
    assert ratios == sorted(ratios, reverse=True) and ratios[-1] == 1
    assert curve(TERMS, 34)[0].cost == 1


def test_the_shipped_run_gives_terms() -> None:
    terms = recorded_terms(files.read(assets() / "traces" / "first.jsonl.gz").events)
    assert terms is not None and 0 < terms.c < 1 and terms.v[0] == pytest.approx(1) and list(terms.v) == sorted(terms.v)
    assert all(0 <= each <= 1 for each in terms.acceptance) and "SmolLM2" in terms.source
    assert recorded_terms([]) is None
