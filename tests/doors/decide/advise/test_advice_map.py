"""The map of the card: what it draws, and what it says about where its numbers come from."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import pytest

from draftscope.advise.planned import TypedValues, planned
from draftscope.advise.question import Question
from draftscope.advise.round_costs import CalibratedCosts
from draftscope_app.doors.decide.advise.map import (
    ACCEPTANCE,
    LENGTH,
    MACHINES,
    MAPS,
    READERS,
    THIS_MACHINE,
    drawn,
    what_if,
)
from draftscope_app.doors.decide.advise.page import Page, alpha_override, draft_cost_factor
from draftscope_app.doors.decide.advise.report import page
from tests.support.models import made_calibration

AS_MEASURED = what_if(None, 1.0, THIS_MACHINE)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    found = planned(Question(), TypedValues((0.7,)), CalibratedCosts(made_calibration(), 100))
    values: dict[str, Any] = json.loads(found.as_json())
    own = {"contexts": [50, 100, 300], "cost": [1.5, 1.4, 1.3], "plain_ms": [4.5, 5.0, 7.0], "drafting": [0.4] * 3}
    values["surface"]["by_context"] = own | {"gamma": 3, "prompt": 100, "prefill_ms": 20.0, "extra_ms": 5.0}
    ratio = {"median": 1.2, "low": 1.1, "high": 1.3}
    values["measured"] = [{"candidate": {"drafter": "draft", "gamma": 3}, "ratio": ratio, "tokens": 96}]
    return values


@pytest.mark.parametrize("which", MAPS)
def test_every_map_is_drawn_and_says_that_it_is_modelled(report: dict[str, Any], which: str) -> None:
    figure, note = drawn(report, which, AS_MEASURED)
    assert figure is not None and len(figure.data[0].z) > 1 and "odelled" in note
    values = [value for row in figure.data[0].z for value in row]
    assert any(trace.name == "break-even" for trace in figure.data) == (min(values) < 0 < max(values))


def test_the_line_is_where_it_stops_paying(report: dict[str, Any]) -> None:
    figure, _ = drawn(report, READERS, what_if(0.3, 1.0, THIS_MACHINE))
    assert [trace.name for trace in figure.data] == [None, "break-even"]


def test_measured_points_are_on_the_map_as_it_was_measured_only(report: dict[str, Any]) -> None:
    figure, _ = drawn(report, READERS, AS_MEASURED)
    point = next(trace for trace in figure.data if trace.name == "measured")
    assert (list(point.x), list(point.y), list(point.customdata)) == (["1"], ["3"], ["1.20 [1.10, 1.30]"])
    changed, note = drawn(report, READERS, what_if(0.9, 1.0, THIS_MACHINE))
    assert not any(trace.name == "measured" for trace in changed.data) and "What if: acceptance 0.90" in note


def test_an_answer_that_was_run_is_marked_at_its_prompt_and_length(report: dict[str, Any]) -> None:
    figure, note = drawn(report, LENGTH, AS_MEASURED)
    point = next(trace for trace in figure.data if trace.name == "measured")
    assert (list(point.x), list(point.y), list(point.customdata)) == (["100"], ["96"], ["1.20 [1.10, 1.30]"])
    assert "96" in figure.data[0].y and "modelled" in note
    for other in (report | {"question": report["question"] | {"concurrency": 4}}, report | {"measured": []}):
        assert not any(trace.name == "measured" for trace in drawn(other, LENGTH, AS_MEASURED)[0].data)


@pytest.mark.parametrize("asked", [what_if(0.9, 1.0, THIS_MACHINE), what_if(None, 0.5, THIS_MACHINE)])
def test_a_better_draft_changes_the_map_by_length_too(report: dict[str, Any], asked: Any) -> None:
    before, after = drawn(report, LENGTH, AS_MEASURED)[0].data[0].z, drawn(report, LENGTH, asked)[0].data[0].z
    assert len(after) == len(before) - 1  # the length that was run is not marked
    assert after[-1][0] > before[-1][0]
    assert "What if" in drawn(report, LENGTH, asked)[1]


WHAT_IFS = [
    AS_MEASURED,
    what_if(0.6, 1.0, THIS_MACHINE),
    what_if(None, 0.5, THIS_MACHINE),
    what_if(None, 1.0, MACHINES[1]),
]


@pytest.mark.parametrize("which", MAPS)
@pytest.mark.parametrize("asked", WHAT_IFS)
def test_the_sentence_names_the_lines_and_marks_that_are_there(report: dict[str, Any], which: str, asked: Any) -> None:
    """It named dotted lines on maps that have none."""
    report = report | {"surface": report["surface"] | {"target_bytes": 10**9, "draft_bytes": 10**8}}
    figure, note = drawn(report, which, asked)
    lines = [trace for trace in figure.data if trace.name == "break-even"]
    assert ("dotted" in note) >= any(trace.line.dash == "dot" for trace in lines)
    assert ("dotted" in note) == (asked.alpha is None and which != ACCEPTANCE)
    assert ("A circle" in note) == any(trace.name == "measured" for trace in figure.data)
    assert ("the dot is draft" in note) == (which == ACCEPTANCE) == any(trace.name == "draft" for trace in figure.data)


def test_the_page_shows_the_map_and_its_sentence(report: dict[str, Any]) -> None:
    listeners = Page(None)  # type: ignore[arg-type]
    figure, note, group = listeners.draw(report, READERS, 0, 9, THIS_MACHINE)
    assert figure["value"] is not None and figure["visible"] is group["visible"] is True
    assert "What if: a draft step at 3.00 of its cost." in note and "break-even" in note
    for missing in (None, report | {"surface": None, "costs_s": 60.0}):
        assert all("value" not in each for each in listeners.draw(missing, READERS, 0, 1, THIS_MACHINE))


def test_the_page_to_hand_on_has_all_three_maps(report: dict[str, Any]) -> None:
    report = report | {"measured": []}
    html = page(report).split("<main>")[1]
    for which in MAPS:
        sentence = escape(drawn(report, which, AS_MEASURED)[1])
        assert f"<h2>Map of the speedup: {which}</h2><figcaption>{sentence}</figcaption>" in html
    assert html.count("<figcaption>") == html.count("Plotly.newPlot(") == 3 and "http" not in html
    without = page(report | {"surface": report["surface"] | {"by_context": None}})
    assert without.count("<figcaption>") == 2 and "There is no map by context" in without
    none = page(report | {"surface": None})
    assert none.count("<figcaption>") == 0 and none.count("There is no map: no drafter makes chains.") == 1
    later = page(report | {"surface": None, "costs_s": 60.0})
    assert later.count("There is no map: what rounds cost on this machine is not measured.") == 1


def test_the_drafter_stands_at_its_acceptance_and_cost(report: dict[str, Any]) -> None:
    figure, _ = drawn(report, ACCEPTANCE, AS_MEASURED)
    point = figure.data[-1]
    assert point.y[0] == pytest.approx(0.7, abs=0.001) and point.x[0] == pytest.approx(0.1)
    assert "measured, gamma 3: 1.20 [1.10, 1.30]" in point.hovertemplate
    assert "measured" not in drawn(report, ACCEPTANCE, what_if(0.9, 1.0, THIS_MACHINE))[0].data[-1].hovertemplate


def test_another_card_is_marked_as_modelled(report: dict[str, Any]) -> None:
    report = report | {"surface": report["surface"] | {"target_bytes": 10**9, "draft_bytes": 10**8}}
    for machine in MACHINES[1:]:
        for which in MAPS:
            figure, note = drawn(report, which, what_if(None, 1.0, machine))
            assert figure is not None and f"a forecast for {machine.split(',')[0]}" in note


def test_a_toy_gets_no_map_for_a_card(report: dict[str, Any]) -> None:
    """An H100 was modelled from the embedded model of a few megabytes."""
    for which in MAPS:
        figure, note = drawn(report, which, what_if(None, 1.0, MACHINES[1]))
        assert figure is None and "draftscope forecast MODEL" in note


def test_a_map_of_another_drafter_says_so(report: dict[str, Any]) -> None:
    chosen = report["chosen"] | {"candidate": {"drafter": "sequoia", "gamma": None}}
    for which in MAPS:
        _, note = drawn(report | {"chosen": chosen}, which, AS_MEASURED)
        words = "The advice is about sequoia, which has no gamma; this map is of draft, the best that has. "
        assert note.startswith(words) and "draft" in note.removeprefix(words)
        assert "The advice is about" not in drawn(report, which, AS_MEASURED)[1]


def test_where_nothing_is_known_there_is_a_sentence(report: dict[str, Any]) -> None:
    assert drawn(report | {"surface": None}, READERS, AS_MEASURED)[0] is None
    typed = report | {"surface": report["surface"] | {"by_context": None}}
    assert drawn(typed, LENGTH, AS_MEASURED)[0] is None


@pytest.mark.parametrize(
    ("value", "expected"), [(0, None), (0.5, 0.5), (1, None), (-0.5, None), ("x", None), (None, None)]
)
def test_anything_may_be_sent_as_an_acceptance(value: Any, expected: float | None) -> None:
    assert alpha_override(value) == expected


@pytest.mark.parametrize(("value", "expected"), [(0.5, 0.5), (9, 3.0), (0.01, 0.1), (float("nan"), 1.0), ("x", 1.0)])
def test_anything_may_be_sent_as_a_factor(value: Any, expected: float) -> None:
    assert draft_cost_factor(value) == expected
