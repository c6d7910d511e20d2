"""Decide, on other hardware: the card is opened, another GPU chosen, a traffic entered, and all of it fits a phone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.browsers import assert_accessible

pytestmark = [pytest.mark.browser, pytest.mark.slow]

BAND = re.compile(r"[\d.]+ \[[\d.]+, [\d.]+\] times plain decoding")


def opened(visit: Any, **options: Any) -> Any:
    """The card with its first answer."""
    shown = visit(**options)
    shown.door("decide")
    shown.open("On other hardware", "hardware-answer")
    shown.page.locator("#ds-hardware-answer [role=status]").wait_for()
    return shown


def choose(card: Any, field: str, option: str) -> None:
    card.get_by_label(field, exact=True).click()
    card.page.locator("ul[role=listbox] li", has_text=option).first.click()


def test_another_card_is_forecast_with_its_curve_and_a_traffic_is_answered_in_cards_or_refused(visit: Any) -> None:
    page = opened(visit).page
    card, answer = page.locator("#ds-hardware"), page.locator("#ds-hardware-answer")
    first = answer.inner_text()
    assert BAND.search(first) and "H100 SXM" in first and "A forecast, not run." in first
    choose(card, "Card", "RTX 4090")
    answer.get_by_text("x RTX 4090 with vLLM").wait_for()
    second = answer.inner_text()
    assert BAND.search(second) and BAND.findall(second) != BAND.findall(first) and "It stops paying at" in second
    card.locator(".js-plotly-plot .fills path").first.wait_for()  # the interval
    band, line = (card.locator(f".js-plotly-plot {part} path").first.bounding_box() for part in (".fills", ".lines"))
    assert band["height"] > 0 and band["y"] < line["y"] and line["y"] + line["height"] < band["y"] + band["height"]
    choose(card, "Curve along", "tokens of context")
    card.locator(".js-plotly-plot .xtitle").get_by_text("tokens of context").wait_for()
    assert "median error" in card.inner_text()
    assert_accessible(page)
    traffic = card.get_by_label("Requests a second")
    traffic.fill("2")
    answer.get_by_text(re.compile(r"Without speculation: \d+ cards? \(\d+ server")).wait_for()
    answer.get_by_text("Simulated, not run").wait_for()
    traffic.fill("900000")
    answer.locator("[role=alert]").filter(has_text="a part of the traffic").wait_for()


def test_the_card_fits_a_phone(visit: Any) -> None:
    shown = opened(visit, viewport={"width": 390, "height": 844})
    card = shown.page.locator("#ds-hardware")
    card.locator(".js-plotly-plot .main-svg").first.wait_for()
    shown.painted(4)
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= 390
    beyond = "e => [...e.querySelectorAll('*')].filter(n => n.getBoundingClientRect().right > innerWidth + 1).length"
    assert card.evaluate(beyond) == 0
