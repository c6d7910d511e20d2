"""Controls that can be seen, touched and left: a list that Tab leaves, thumbs of sliders, a phone, a zoom of 200%."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.visit import UNFOLDS, Visit, visitor

pytestmark = pytest.mark.browser
LISTS = "() => document.querySelectorAll('ul[role=listbox]').length === 0"
FIRST_SCREEN = {"width": 390, "height": 844}
TOUCHED = 24  # pixels that a finger needs
# Every control that is seen, in the instrument too, brought to the middle of the window: [control, what lies on it].
COVERED = """() => { const found = [];
    const at = (root, x, y) => { const top = root.elementFromPoint(x, y);
        return top?.shadowRoot && top.shadowRoot !== root ? at(top.shadowRoot, x, y) : top; };
    const within = (top, e) => top && (top === e || e.contains(top) || e.labels?.[0]?.contains(top));
    const visit = (root) => { for (const e of root.querySelectorAll("*")) {
        if (e.shadowRoot) visit(e.shadowRoot);
        const seen = e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
        if (!seen || !e.matches("button, a[href]:not(.ds-skip), input, select, textarea, summary")) continue;
        e.scrollIntoView({ block: "center", behavior: "instant" });
        const { left, top, width, height } = e.getBoundingClientRect();
        const over = width && at(document, left + width / 2, top + height / 2);
        if (width && !within(over, e)) found.push([e, over].map((each) => each && each.outerHTML.slice(0, 90)));
    } };
    visit(document);
    scrollTo(0, 0);
    return found; }"""


def test_tab_closes_the_list_that_it_leaves(lent: Any) -> None:
    """The list of drafters stayed open over the page, and over the scenes."""
    page = lent()
    page.page.focus("#ds-drafter input")
    page.page.keyboard.press("Tab")
    page.painted()
    page.page.wait_for_function(LISTS)
    page.page.click("#ds-drafter input")
    page.page.wait_for_selector("ul[role=listbox]")
    page.page.keyboard.press("Tab")
    page.page.wait_for_function(LISTS)
    assert page.page.evaluate("document.activeElement.closest('#ds-drafter') === null")


def test_a_phone_sets_drafter_and_temperature_on_its_first_screen(lent: Any) -> None:
    page = lent()
    page.page.set_viewport_size(FIRST_SCREEN)
    page.painted(4)
    for name in ("prompt", "drafter", "temperature", "run"):
        box = page.page.locator(f"#ds-{name}").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] + box["height"] < 844 - 56, name
    slider = page.page.locator("#ds-temperature input[type=range]").bounding_box()
    around = page.page.locator("#ds-temperature").bounding_box()
    assert slider["height"] >= TOUCHED
    assert around["x"] <= slider["x"] and slider["x"] + slider["width"] <= around["x"] + around["width"]


DOORS_ROW = 56  # pixels at the bottom of a phone


def test_a_phones_first_screen_has_the_tree(lent: Any) -> None:
    """It lay below two texts and a timeline."""
    page = lent("?max_new_tokens=16")
    page.page.set_viewport_size(FIRST_SCREEN)
    page.painted(4)
    for run in (False, True):
        if run:
            page.run()
        rows = page.element.locator(".tree .outline .row")
        shown = [row.bounding_box() for row in rows.all()[:3]]
        assert len(shown) > 1
        assert all(row["y"] + row["height"] <= FIRST_SCREEN["height"] - DOORS_ROW for row in shown)
        assert page.page.evaluate("scrollY") == 0
        tree, lanes, decision = (
            page.element.locator(part).bounding_box()["y"] for part in (".tree", ".lanes", ".decision")
        )
        assert tree < lanes < decision
    page.page.set_viewport_size({"width": 1440, "height": 900})
    page.painted(4)
    assert page.element.locator(".pair > .tree").count() == 1
    lanes, tree = (page.element.locator(part).bounding_box()["y"] for part in (".lanes", ".tree"))
    assert lanes < tree


def test_a_page_zoomed_to_200_percent_overflows_nowhere_and_covers_no_control(browser: Any, address: str) -> None:
    width = 720
    context = visitor(browser, viewport={"width": width, "height": 900}, device_scale_factor=2)
    page = Visit(context, address, reduced_motion="reduce")
    page.ready()
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.page.evaluate(COVERED) == []
    page.close()
    context.close()


# Of a door's link, its left edge too: a list is narrower than the row of doors.
LIES_ON = """all => all.flatMap((e) => { const { left, top, width, height } = e.getBoundingClientRect();
    return [0.1, 0.5, 0.9].flatMap((x) => [0.1, 0.5, 0.9].map((y) =>
        document.elementFromPoint(left + x * width, top + y * height))); })
    .filter((at) => !at.closest("nav")).map((at) => at.outerHTML.slice(0, 90))"""
NARROWEST = {"width": 360, "height": 740}


def test_no_control_of_a_door_is_covered_on_a_narrow_phone(lent: Any) -> None:
    page = lent()
    page.page.set_viewport_size(NARROWEST)
    for door in ("watch", "decide", "servers", "learn"):
        page.door(door)
        assert page.page.evaluate(COVERED) == [], door
        assert page.page.evaluate("document.documentElement.scrollWidth") <= NARROWEST["width"], door


def test_no_control_is_covered_after_a_run_or_under_an_open_list(lent: Any) -> None:
    page = lent("?max_new_tokens=16")
    page.page.set_viewport_size(NARROWEST)
    page.run()
    for title in UNFOLDS:
        page.unfold(title)
    page.more()
    page.painted()
    assert page.page.evaluate(COVERED) == []
    page.page.focus("#ds-drafter input")
    page.page.keyboard.press("ArrowDown")
    page.page.wait_for_selector("ul[role=listbox]")
    page.painted(4)
    assert page.page.locator("nav a").evaluate_all(LIES_ON) == []
    page.page.keyboard.press("Escape")
    page.page.wait_for_function(LISTS)
    assert page.page.evaluate(COVERED) == []
