"""The card of an engine's log in a browser: what a log says over its time is drawn in the page's own colours."""

from __future__ import annotations

from typing import Any

import pytest

from tests.log.test_rounds_page import lines_of_vllm

pytestmark = pytest.mark.browser
DROP = """([name, text]) => {
    const { shadowRoot } = document.querySelector("draftscope-instrument");
    const card = shadowRoot.querySelector(".audit[aria-label^='The log']");
    const files = new DataTransfer();
    files.items.add(new File([text], name));
    card.dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: files })); }"""
LOOK = """card => { const of = (part, what) => getComputedStyle(card.querySelector(part))[what];
    return [of("polyline", "fill"), of("svg text", "fill"), of("svg line", "stroke")]; }"""


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_a_log_that_is_dropped_is_drawn_over_its_time(visit: Any, width: int, theme: str) -> None:
    """Its line was filled with black, and its words were black on a dark page."""
    page = visit("?door=servers", viewport={"width": width, "height": 900}, color_scheme=theme)
    page.ready()
    page.page.evaluate(DROP, ["vllm.log", lines_of_vllm(*[30] * 6, *[3] * 3, *[30] * 3)])
    card = page.element.get_by_label("The log of an engine")
    card.locator("circle").first.wait_for()
    assert card.locator("circle").count() == 12
    fill, words, lines = card.evaluate(LOOK)
    assert fill == "none" and words != "rgb(0, 0, 0)" and lines != "none"
    assert "Least was kept in line 7: 3 of 40 kept." in " ".join(card.inner_text().split())
    assert card.get_by_label("Part of the log").input_value() == "6"
    card.locator("circle").nth(2).dispatch_event("click")
    page.painted()
    assert "In line 3: 30 of 40 kept." in " ".join(card.inner_text().split())
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    chart, table = (card.locator(part).first.bounding_box() for part in (".share-curve", "table"))
    beside = chart["y"] < table["y"] + table["height"] and chart["x"] + chart["width"] <= table["x"]
    assert beside == (width > 700)
