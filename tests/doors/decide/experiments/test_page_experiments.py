"""The drawer of experiments: a recorded result with its chart and sentence, and one that is begun and stopped."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.claims.experiments import find
from tests.support.browsers import assert_accessible

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def opened(shown: Any, question: str = "From how many concurrent requests") -> Any:
    """The drawer of a page, unfolded, with its first experiment or the one that runs."""
    drawer = shown.page.locator("#ds-experiments")
    shown.door("decide")
    drawer.locator("> button").click()
    drawer.locator("#ds-experiments-about").get_by_text(question).wait_for()
    shown.painted(4)  # Gradio writes each value once more: see `Visit.open`
    return drawer


def has_a_shape_for_each_in_a_legend_that_fits_a_phone(shown: Any, drawer: Any) -> None:
    """Of the ladder of drafters."""
    shown.page.set_viewport_size({"width": 390, "height": 844})
    drawer.locator("#ds-experiments-which input").click()
    shown.page.get_by_role("option", name="Ladder of drafters").click()
    drawer.locator(".js-plotly-plot .legendtext").nth(11).wait_for()
    shapes = drawer.locator(".js-plotly-plot .legendpoints path").evaluate_all(
        "all => all.map((e) => [e.getAttribute('d'), getComputedStyle(e).fill].join())"
    )
    assert len(set(shapes)) == len(shapes) == 12
    rights = drawer.locator(".js-plotly-plot .legendtext").evaluate_all(
        "all => all.map((e) => e.getBoundingClientRect().right)"
    )
    assert max(rights) <= 390
    assert shown.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    shown.page.set_viewport_size({"width": 1440, "height": 1000})


def test_recorded_experiments_are_shown_and_one_is_begun_found_again_and_stopped(visit: Any) -> None:
    shown = visit()
    page = shown.page
    chosen = find("Memory")
    assert chosen is not None
    drawer = opened(shown)
    has_a_shape_for_each_in_a_legend_that_fits_a_phone(shown, drawer)
    drawer.locator("#ds-experiments-which input").click()
    page.get_by_role("option", name=chosen.name).click()
    drawer.get_by_text(chosen.question).wait_for()
    drawer.get_by_text("Computed from the models' shapes").wait_for()
    drawer.locator(".js-plotly-plot .ytitle", has_text="bytes").wait_for()
    assert_accessible(page)
    drawer.locator("#ds-experiments-run").click()
    drawer.locator("progress").wait_for()
    assert drawer.locator("progress").evaluate("e => getComputedStyle(e).appearance") == "none"  # or it looks full
    shown.reload()
    drawer = opened(shown, chosen.question)
    drawer.locator("#ds-experiments-stop:enabled").wait_for()
    drawer.get_by_role("status").filter(has_text="Measuring").wait_for()
    drawer.locator("#ds-experiments-stop").click()
    drawer.get_by_role("alert").filter(has_text="Stopped; nothing was measured.").wait_for()
    drawer.locator("#ds-experiments-run:enabled").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
