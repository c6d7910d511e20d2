"""The drawer of experiments: a recorded result with its chart and sentence, and one that is begun and stopped."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.claims.experiments import find
from tests.support.browsers import assert_accessible

pytestmark = [pytest.mark.browser, pytest.mark.live_page]


def test_a_recorded_experiment_is_shown_and_one_is_begun_and_stopped(visit: Any) -> None:
    shown = visit()
    page = shown.page
    drawer = page.locator("#ds-experiments")
    drawer.locator("> button").click()
    chosen = find("Memory")
    assert chosen is not None
    drawer.locator("#ds-experiments-about").get_by_text("How many readers").wait_for()
    shown.painted(4)  # Gradio writes each value once more: see `Visit.open`
    drawer.locator("#ds-experiments-which input").click()
    page.get_by_role("option", name=chosen.name).click()
    drawer.get_by_text(chosen.question).wait_for()
    drawer.get_by_text("Computed from the models' shapes").wait_for()
    drawer.locator(".js-plotly-plot .ytitle", has_text="bytes").wait_for()
    assert_accessible(page)
    drawer.locator("#ds-experiments-run").click()
    drawer.locator("progress").wait_for()
    assert drawer.locator("progress").evaluate("e => getComputedStyle(e).appearance") == "none"  # or it looks full
    drawer.locator("#ds-experiments-stop:enabled").click()
    drawer.get_by_role("alert").filter(has_text="Stopped; nothing was measured.").wait_for()
    drawer.locator("#ds-experiments-run:enabled").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
