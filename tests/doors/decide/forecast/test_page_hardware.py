"""Decide begins with the forecast: answered at once, for another card, for a traffic in cards; it fits a phone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.browsers import assert_accessible

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SEEN = "e => { const box = e.getBoundingClientRect(); return box.height > 0 && box.bottom <= innerHeight; }"
SMALL = """e => [...e.querySelectorAll('*')].filter((n) => n.textContent.trim() && n.getClientRects().length
    && parseFloat(getComputedStyle(n).fontSize) < 12).length"""
LAST_OF_THREE = """async (e) => { // questions that come while one is answered
    const view = e.cards.view("forecast");
    for (const model of ["Llama-3-8B", "Qwen3-14B", "Qwen3-8B"]) view.set("model", model);
    while (view.asking) await new Promise((done) => setTimeout(done, 20));
    return view.answer.terms[0][1];
}"""
BEYOND = "e => [...e.querySelectorAll('*')].filter(n => n.getBoundingClientRect().right > innerWidth + 1).length"


def opened(visit: Any, **options: Any) -> Any:
    """The card with its first answer."""
    shown = visit(**options)
    shown.door("decide")
    shown.element.locator(".forecast h2").wait_for()
    return shown


def test_the_first_question_is_answered_with_interval_and_curve_before_anything_is_asked_and_fits_a_phone(
    visit: Any,
) -> None:
    shown = opened(visit, viewport={"width": 1440, "height": 900})
    card = shown.element.locator(".forecast")
    assert re.fullmatch(r"Yes: about \d\.\d times as fast", card.locator("h2").inner_text())
    assert re.match(r"between [\d.]+ and [\d.]+ in nine of ten cases like it", card.locator(".interval").inner_text())
    assert card.locator(".reply").evaluate(SEEN) and "nothing was run" in card.inner_text()
    names = ("Model", "Drafter", "Card", "Server", "Requests at once")
    tops = {round(card.get_by_label(name, exact=True).bounding_box()["y"]) for name in names}
    assert len(tops) == 1  # the question is one line
    band, line = (card.locator(f".plot {part}").bounding_box() for part in ("polygon", "polyline"))
    assert band["height"] > 0 and band["y"] < line["y"] and line["y"] + line["height"] < band["y"] + band["height"]
    assert "times plain decoding" in card.locator("figcaption").inner_text()
    assert "concurrent requests" in card.locator(".axis").inner_text()
    below = [shown.page.locator(name).bounding_box() for name in ("#ds-calculator", "#ds-advice")]
    assert abs(below[0]["y"] - below[1]["y"]) < 2 and below[0]["y"] > card.locator(".reply").bounding_box()["y"]
    assert card.evaluate(SMALL) == 0
    fits_a_phone(shown, card)


def fits_a_phone(shown: Any, card: Any) -> None:
    shown.page.set_viewport_size({"width": 390, "height": 844})
    shown.painted(4)
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert card.evaluate(BEYOND) == 0 and card.evaluate(SMALL) == 0
    headline, curve = (card.locator(part).bounding_box() for part in ("h2", ".plot"))
    assert headline["y"] + headline["height"] < 844 and curve["y"] > headline["y"]


def test_another_card_is_forecast_a_traffic_answered_in_cards_or_refused_and_the_last_question_counts(
    visit: Any,
) -> None:
    shown = opened(visit)
    card = shown.element.locator(".forecast")
    first = card.locator(".reply").inner_text()
    card.get_by_label("Card", exact=True).select_option("RTX 4090")
    card.get_by_label("Model", exact=True).select_option("Qwen3-8B")
    card.locator("dd", has_text="RTX 4090").first.wait_for(state="attached")
    shown.until("e => !e.cards.view('forecast').asking")
    assert card.locator(".reply").inner_text() != first
    assert_accessible(shown.page)
    card.locator("summary").click()
    card.get_by_label("Curve along").select_option("tokens of context")
    card.locator(".axis", has_text="tokens of context").wait_for()
    assert "median error" in card.inner_text()
    traffic = card.get_by_label("Requests a second (0: none)")
    traffic.fill("2")
    traffic.press("Tab")
    card.get_by_text(re.compile(r"Without speculation: \d+ cards? \(\d+ server")).wait_for()
    traffic.fill("900000")
    traffic.press("Tab")
    card.locator("[role=alert]").filter(has_text="a part of the traffic").wait_for()
    traffic.fill("0")
    traffic.press("Tab")
    card.locator("h2").wait_for()
    assert_accessible(shown.page)
    assert shown.ask(LAST_OF_THREE).startswith("Qwen3-8B")
