"""The museum in Learn: four bugs with what convicts them and what acquits their mends, as they were recorded."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.servers.museum.exhibits import EXHIBITS, NOT_REPRODUCED
from draftscope_app.doors.servers.museum.page import exhibits
from tests.support.browsers import assert_accessible

pytestmark = pytest.mark.browser


def test_servers_lead_to_the_museum_and_back_and_each_exhibit_shows_its_record(visit: Any) -> None:
    record = exhibits()
    page = visit("?door=servers")
    page.ready()
    page.page.get_by_role("button", name="Open the museum").click()
    halls = page.page.locator(".exhibit")
    halls.nth(3).wait_for()
    assert "museum=1" in page.page.url and "door=learn" in page.page.url and not page.page.locator(".path").is_visible()
    for told, hall in zip(record["exhibits"], halls.all(), strict=True):
        link = hall.get_by_role("link", name=told["number"])
        assert link.get_attribute("href") == told["link"] and hall.get_by_text(told["story"]).count() == 1
        sides = hall.locator(".audit")
        assert [side.get_attribute("data-result") for side in sides.all()] == ["differs", "same"]
        for side, name in zip(sides.all(), ("wrong", "mended"), strict=True):
            assert side.locator(".verdict-sentence").inner_text() == told[name]["verdict"]
            assert side.locator(".bar-row").count() == len(told["picture"]["rows"])
        samples = told["wrong"]["evidence"] >= told["wrong"]["needed"]
        words = "✗ differs from its target" if samples else "✗ differs, but not in its samples"
        assert sides.nth(0).locator(".verdict").inner_text() == words
        assert sides.nth(0).locator(".bar-row.far").count() > sides.nth(1).locator(".bar-row.far").count() == 0
    assert page.page.get_by_label("Not reproduced").locator("tbody tr").count() == len(NOT_REPRODUCED)
    page.page.go_back()
    page.page.locator(".servers").wait_for()
    page.page.go_forward()
    halls.first.wait_for()
    page.page.get_by_role("button", name="Back to Learn").click()
    page.page.wait_for_selector(".path")
    assert not halls.first.is_visible() and "museum" not in page.page.url


@pytest.mark.slow
def test_the_museum_is_read_by_everybody(visit: Any) -> None:
    page = visit("?museum=1", viewport={"width": 390, "height": 900})
    page.page.locator(".exhibit").nth(3).wait_for()
    for width in (390, 1440):
        page.page.set_viewport_size({"width": width, "height": 900})
        page.painted()
        assert_accessible(page.page)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    page.page.evaluate("() => { Draftscope.flipTheme(); }")
    assert_accessible(page.page, colors_only=True)  # all that another theme changes


def test_what_is_recorded_is_what_the_command_shows() -> None:
    record = exhibits()
    for told, exhibit in zip(record["exhibits"], EXHIBITS, strict=True):
        names = ("number", "link", "title", "story")
        assert [told[name] for name in names] == [getattr(exhibit, name) for name in names]
        assert told["wrong"]["different"] and not told["mended"]["different"]
        assert told["mended"]["texts"] >= 960
    assert record["not_reproduced"] == [list(row) for row in NOT_REPRODUCED]
