"""The four doors: addresses with titles and a way back, one header, each clean; and the opening that plays once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browsers import assert_accessible
from tests.support.reading import misread, spoken
from tests.support.visit import Visit, visitor

pytestmark = pytest.mark.browser

ONLY = {"watch": "#ds-controls", "decide": "#ds-advice", "servers": "section[aria-label=Servers]", "learn": ".path"}


def test_each_door_is_an_address_with_a_way_back(visit: Any) -> None:
    page = visit("?door=servers&seed=7")
    page.ready()
    assert not page.page.locator("#ds-decide").count()  # built when it is opened
    for name in ("servers", "decide", "learn", "watch"):
        page.door(name)
        assert page.page.title() == ("Draftscope" if name == "watch" else f"{name.capitalize()} · Draftscope")
        assert page.page.locator("nav a[aria-current=page]").inner_text().lower() == name
        for other, selector in ONLY.items():
            page.page.locator(selector).first.wait_for(state="visible" if other == name else "hidden")
        assert "seed=7" in page.page.url
    page.page.go_back()
    page.page.wait_for_selector(".path")
    assert "door=learn" in page.page.url


def test_an_address_leads_to_a_round_and_a_node(lent: Any, visit: Any) -> None:
    page = lent()
    page.ask("e => e.cursor.select(e.store.lanes[1], 2)")
    page.page.wait_for_function("() => location.search.includes('round=3')")
    other = visit("?" + page.page.url.partition("?")[2])
    assert other.text(".badge") == "recorded"
    other.until("e => e.cursor.at?.round === 2 && e.cursor.at.key === " + repr(page.ask("e => e.cursor.at.key")))


UNDER = """() => { const menu = document.querySelector("#ds-models"), box = menu.getBoundingClientRect();
    const at = (part, from, size) => from + part * size;
    const parts = [...Array(41).keys()].map((n) => (n + 0.5) / 41);
    return parts.flatMap((x) => parts.map((y) =>
        document.elementFromPoint(at(x, box.left, box.width), at(y, box.top, box.height))))
        .filter((e) => !menu.contains(e)).map((e) => e.outerHTML.slice(0, 80)); }"""
NUMBERS_CUT = """() => [...document.querySelectorAll("#ds-controls > .form > .block .tab-like-container")]
    .map((e) => e.scrollWidth - e.clientWidth)"""


def test_nothing_lies_on_an_open_menu_and_no_number_is_cut(lent: Any) -> None:
    page = lent()
    assert page.page.evaluate(NUMBERS_CUT) == [0, 0]
    page.menu("models")
    assert page.page.evaluate(UNDER) == []
    page.page.get_by_role("button", name="Another model").click()
    page.page.wait_for_selector("#ds-target", state="visible")
    high = "e => [e.placeholder, 'x'].map((text) => { e.value = text; return e.scrollHeight; })"
    written, one_line = page.page.locator("#ds-target textarea, #ds-target input").evaluate(high)
    assert written == one_line


CUT = """(all, width) => all.map((each) => [each.textContent.trim(), each.getBoundingClientRect()])
    .filter(([, box]) => box.width && (box.left < 0 || box.right > width)).map(([text]) => text)"""


WIDTHS = [pytest.param((390,), id="390"), pytest.param((720, 1440), id="wider", marks=pytest.mark.slow)]


@pytest.mark.parametrize("widths", WIDTHS)
def test_no_door_breaks_a_rule_of_access_or_the_width_or_is_read_in_another_order(
    lent: Any, widths: tuple[int, ...]
) -> None:
    """The button that saves the timeline's picture stood below it, and was read before it."""
    page = lent()
    for name in ONLY:
        page.door(name)
        for width in widths:
            page.page.set_viewport_size({"width": width, "height": 1000})
            page.painted(4)
            is_in_order(page, name, width)
            assert_accessible(page.page)


def test_no_door_breaks_a_rule_of_colours_in_the_dark(lent: Any) -> None:
    """They are all that another theme changes, whatever the width."""
    page = lent()
    page.page.evaluate("() => { Draftscope.flipTheme(); }")
    for name in ONLY:
        page.door(name)
        assert_accessible(page.page, colors_only=True)


def is_in_order(page: Visit, name: str, width: int) -> None:
    said = spoken(page.page)
    assert len(said) > 12 and sum(each.box is not None for each in said) > 8, name
    assert misread(said) == [], name
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width, name
    assert page.page.locator("button:visible, nav a:visible").evaluate_all(CUT, width) == [], name
    doors, tools = (page.page.locator(part).bounding_box() for part in ("nav", "#ds-tools"))
    assert doors["y"] > tools["y"] + tools["height"] or doors["x"] + doors["width"] <= tools["x"], name


@pytest.mark.slow
def test_the_opening_plays_once_and_any_click_ends_it(browser: Any, address: str) -> None:
    context = visitor(browser, first=True)
    page = Visit(context, address)
    page.until("e => e.opening.root.hidden || e.opening.playing")
    assert page.ask("e => e.opening.playing") == page.ask("e => Boolean(e.opening.round)")
    if page.ask("e => e.opening.playing"):
        page.until("e => e.opening.at >= 1")
        page.page.mouse.click(5, 400)
        page.until("e => !e.opening.playing && e.transport.whole")
    page.reload()
    page.ready()
    assert not page.ask("e => e.opening.playing")
    page.close()
    context.close()
