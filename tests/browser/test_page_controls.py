"""The page's controls: only those that the drafter reads are shown, and a link's settings arrive before a run."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest

from draftscope_app.page.controls import defaults, from_query
from tests.support.lent import put
from tests.support.links import OWN_SETTINGS

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def settings(page: Any) -> dict[str, Any]:
    found: dict[str, Any] = page.ask("e => e.store.lanes[1].start.settings")
    return found


def test_run_waits_for_the_settings_of_the_link(visit: Any) -> None:
    """Run is pressed as soon as the button exists, whatever the controls contain then."""
    page = visit(
        "?drafter=cascade&inner=suffix&gamma=2&seed=11&max_new_tokens=16&prompt=hello&temperature=1", wait=False
    )
    page.page.wait_for_selector("#ds-run")
    page.page.click("#ds-run", no_wait_after=True)
    page.commit()
    page.until("e => e.store.source === 'live' && e.state === 'done'")
    start = page.ask("e => e.store.lanes[1].start")
    assert (start["drafter"], start["prompt"], start["seed"]) == ("cascade", "hello", 11)
    assert {name: start["settings"][name] for name in ("inner", "gamma", "max_new_tokens")} == {
        "inner": "suffix", "gamma": 2, "max_new_tokens": 16,
    }  # fmt: skip


def test_options_of_a_choice_are_shown_with_it(lent: Any) -> None:
    page = lent("?rule=lenient&lenience=0.25&draft_length=specdec%2B%2B&confidence=0.6&temperature=1&max_new_tokens=16")
    page.more()
    page.page.wait_for_selector("#ds-lenience", state="visible")
    assert page.page.locator("#ds-agreement").count() == 0 or not page.page.is_visible("#ds-agreement")
    page.open("More settings", "confidence")
    page.run()
    assert {name: settings(page)[name] for name in ("rule", "lenience", "draft_length", "confidence")} == {
        "rule": "lenient", "lenience": 0.25, "draft_length": "specdec++", "confidence": 0.6,
    }  # fmt: skip
    page.page.click("#ds-rule input")
    page.page.locator("ul[role=listbox] li", has_text="top-k (lossy)").click()
    page.page.wait_for_selector("#ds-agreement", state="visible")
    page.page.wait_for_selector("#ds-lenience", state="hidden")
    page.choose("n-gram")
    page.page.wait_for_selector("#ds-rule", state="hidden")
    page.page.wait_for_selector("#ds-agreement", state="hidden")


def test_every_drafters_own_setting_reaches_the_engine(lent: Any) -> None:
    """Each as a link writes it. How a link becomes settings is in test_app_views.py, without a browser."""
    page = lent()
    for number, (query, shown) in enumerate(OWN_SETTINGS, 1):
        values, odd = from_query(dict(parse_qsl(query)), defaults())
        assert not odd
        put(page, {**values, "prompt": "abc", "max_new_tokens": 8, "seed": number})
        page.run()
        found = settings(page)
        assert {name: found[name] for name in shown} == shown, query
        assert page.ask("e => e.store.lanes[1].start.seed") == number


def test_a_link_carries_the_settings_of_a_bandit_and_of_the_distribution(lent: Any, visit: Any) -> None:
    """They are shown only with the drafter that reads them, and a copied link restores them."""
    page = lent("?max_new_tokens=8&temperature=1")
    assert not page.page.is_visible("#ds-policy") and not page.page.is_visible("#ds-prefetch")
    page.more()
    page.choose("Bandit")
    page.open("More settings", "policy")
    page.fill("arms", "draft:3, ngram:2")
    page.page.click("#ds-policy input")
    page.page.locator("ul[role=listbox] li", has_text="Thompson").click()
    page.open("More settings", "top-k")
    page.fill("top-k", "7")
    page.run()
    query = page.page.url.partition("?")[2]
    other = visit(f"?{query}")
    other.run()
    wanted = {"policy": "thompson", "arms": ["draft:3", "ngram:2"], "top_k": 7}
    for shown in (page, other):
        assert {name: settings(shown)[name] for name in wanted} == wanted
    assert "top-k 7" in other.text(".what")
    other.more()
    other.choose("SSD")
    other.page.wait_for_selector("#ds-prefetch", state="visible")
    other.page.wait_for_selector("#ds-arms", state="hidden")
