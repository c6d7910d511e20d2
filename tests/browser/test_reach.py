"""Controls that can be seen, touched and left: a list that Tab leaves, thumbs of sliders, a phone, a zoom of 200%."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.visit import Visit, visitor

pytestmark = pytest.mark.browser
LISTS = "() => document.querySelectorAll('ul[role=listbox]').length === 0"
TOUCHED = 24  # pixels that a finger needs
COVERED = """all => all.filter((e) => { const box = e.getBoundingClientRect();
    const at = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    return box.width && box.bottom < innerHeight && at !== e && !e.contains(at);
    }).map((e) => e.outerHTML.slice(0, 80))"""


def test_tab_closes_the_list_that_it_leaves(visit: Any) -> None:
    """The list of drafters stayed open over the page, and over the scenes."""
    page = visit()
    page.ready()
    page.page.focus("#ds-drafter input")
    page.page.keyboard.press("Tab")
    page.painted()
    page.page.wait_for_function(LISTS)
    page.page.click("#ds-drafter input")
    page.page.wait_for_selector("ul[role=listbox]")
    page.page.keyboard.press("Tab")
    page.page.wait_for_function(LISTS)
    assert page.page.evaluate("document.activeElement.closest('#ds-drafter') === null")


def test_a_phone_sets_drafter_and_temperature_on_its_first_screen(visit: Any) -> None:
    page = visit(viewport={"width": 390, "height": 844})
    page.ready()
    for name in ("prompt", "drafter", "temperature", "run"):
        box = page.page.locator(f"#ds-{name}").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] + box["height"] < 844 - 56, name
    slider = page.page.locator("#ds-temperature input[type=range]").bounding_box()
    around = page.page.locator("#ds-temperature").bounding_box()
    assert slider["height"] >= TOUCHED
    assert around["x"] <= slider["x"] and slider["x"] + slider["width"] <= around["x"] + around["width"]


def test_a_page_zoomed_to_200_percent_overflows_nowhere_and_covers_no_control(browser: Any, address: str) -> None:
    width = 720
    context = visitor(browser, viewport={"width": width, "height": 900}, device_scale_factor=2)
    page = Visit(context, address, reduced_motion="reduce")
    page.ready()
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    controls = "#ds-controls button:visible, #ds-controls input:visible, #ds-controls textarea:visible"
    assert page.page.locator(controls).evaluate_all(COVERED) == []
    page.close()
    context.close()
