"""Decide: estimate and measurement side by side; a question is refused, measured, stopped, saved; and the claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.browsers import assert_accessible

pytestmark = [pytest.mark.browser, pytest.mark.slow]

EXPLAINED = """() => {
    const answer = document.querySelector("#ds-advice-answer p").cloneNode();
    answer.innerHTML = "tokens, τ / (γ c) <code>c</code>";
    Draftscope.explain(answer);
    return [[...answer.querySelectorAll(".symbol")].map((each) => each.textContent), answer.lastChild.innerHTML];
}"""


def test_the_estimate_says_whose_it_is_and_stands_beside_the_measurement(lent: Any) -> None:
    page = lent()
    page.page.set_viewport_size({"width": 1440, "height": 900})
    page.door("decide")
    calculator = page.page.locator(".ds-calculator")
    assert "By this estimate" in page.page.locator(".ds-calculator-headline").inner_text()
    model = page.ask("e => e.store.lanes.at(-1).start.models.find((m) => m.role === 'target').name")
    assert calculator.locator("h2").inner_text() == f"The model on Watch: {model}"
    assert "from the page's recorded run, chosen because it gains" in calculator.inner_text()
    assert "times plain decoding's tokens/s" in calculator.locator("svg").text_content()
    assert calculator.locator("line.level").count() >= 2
    assert calculator.locator(".symbol").all_inner_texts() == ["α", "c", "v"]
    assert page.page.get_by_role("slider", name="Concurrent requests", exact=True).count() == 1
    assert page.page.evaluate(EXPLAINED) == [["τ", "γ", "c"], "c"]
    page.page.locator("#ds-advice").get_by_text("nothing is decided").wait_for()
    left, right = (page.page.locator(name).bounding_box() for name in ("#ds-calculator", "#ds-advice"))
    assert abs(left["height"] - right["height"]) < 60 and right["x"] > left["x"] + left["width"]  # no half is empty
    page.open("Drafters, temperature", "advice-drafters")
    page.page.locator("#ds-advice-drafters input").click()
    page.page.locator("ul[role=listbox] li").first.wait_for()


def test_a_question_is_refused_in_a_sentence_stopped_and_answered_and_the_answer_saved(visit: Any) -> None:
    shown = visit()
    page = shown.page
    shown.door("decide")
    page.wait_for_selector("#ds-advice-s", state="visible")
    shown.painted(4)  # see `Visit.open`
    card, measure = page.locator("#ds-advice"), page.locator("#ds-advice-measure")
    assert measure.inner_text() == "Measure, 30 s"
    shown.open("Drafters, temperature", "advice-length")
    page.locator("#ds-advice-length input").fill("0")
    measure.click()
    card.locator("[role=alert]").filter(has_text="max_new_tokens = 0").wait_for()
    page.locator("#ds-advice-length input").fill("16")
    measure.click()
    card.locator("progress").wait_for()
    assert_accessible(page)
    page.locator("#ds-advice-stop").click()
    card.get_by_text("Stopped before there was an answer").wait_for()
    page.locator("#ds-advice-s input[type=number]").fill("5")
    page.locator("#ds-advice-own textarea").fill("abc\nabcabc\nthe sea")
    card.get_by_role("button", name="Measure, 5 s").click()
    card.locator(".ds-verdict[data-verdict]").wait_for()  # before it there is the verdict so far
    verdict, found = card.locator(".ds-verdict"), page.locator("#ds-verdict")
    assert verdict.get_attribute("data-verdict") in ("turn it on", "leave it off", "cannot tell")
    assert found.locator(".ds-table").first.is_visible()
    for empty in page.get_by_label("Empty value").all():  # Gradio's, until a figure is drawn
        empty.wait_for(state="hidden")
    for colors_only in (False, True):  # all that another theme changes
        assert_accessible(page, colors_only)
        page.evaluate("Draftscope.flipTheme()")
    with page.expect_download() as download:
        page.locator("#ds-advice-save").click()
    assert "Should it speculate?" in Path(download.value.path()).read_text(encoding="utf-8")
    page.locator("#ds-advice-costs").filter(has_text="once for this machine").click()  # which were not waited for
    card.locator("progress").wait_for()
    page.locator("#ds-advice-stop").click()
    card.get_by_text("Stopped before there was an answer").wait_for()
    assert not found.is_visible()


def test_a_verdict_is_shown_once_it_was_predicted(lent: Any) -> None:
    shown = lent()
    page = shown.page
    shown.door("decide")
    drawer = page.locator("#ds-claims")
    drawer.locator("> button").click()
    claim = drawer.locator("li:has([data-guess])").first
    claim.wait_for()
    shown.painted(4)  # the list is written once more up to two frames after it is there: see `Visit.open`
    claim.locator(".ds-found").wait_for(state="hidden")
    claim.locator("[data-guess]").first.click()
    claim.locator(".ds-found").wait_for()
    drawer.get_by_text("of 1 expected.").wait_for()
    assert claim.locator("[data-guess]:disabled").count() == 3
    drawer.get_by_role("button", name="Show all verdicts").click()
    drawer.locator(".ds-found[hidden]").first.wait_for(state="detached")
    assert_accessible(page)
