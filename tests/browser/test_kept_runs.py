"""Runs that a page keeps: to go back to, and to send with a link; and the recorded ones that it opens with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browsers import violations

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SHORT = "?max_new_tokens=4&drafter=ngram&temperature=0"
IDS = "e => e.store.lanes.map((lane) => lane.end.token_ids)"
EARLIER = "Go back to a run of this page"


def test_the_page_goes_back_to_an_earlier_run(lent: Any) -> None:
    page = lent(SHORT)
    page.ask("e => { e.runs.kept = []; }")
    page.run()
    first, run = page.ask(IDS), page.ask("e => e.store.run")
    page.fill("prompt", "another text")
    page.run()
    assert page.ask(IDS) != first
    earlier = page.element.get_by_label(EARLIER)
    assert earlier.locator("option").first.inner_text() == "Runs so far (2)"
    assert "N-gram" in earlier.locator("option").nth(2).inner_text()
    assert violations(page.page) == []
    earlier.select_option(run)
    page.until(f"e => e.store.run === '{run}' && e.store.source === 'recorded'")
    assert page.ask(IDS) == first
    assert len(page.ask("e => e.runs.kept")) == 2  # what was opened from a file is not kept again


def test_a_link_carries_a_short_run_and_opens_it(lent: Any, visit: Any) -> None:
    page = lent(SHORT)
    page.run()
    ids = page.ask(IDS)
    page.menu("share")
    page.page.click("#ds-link")
    page.until("e => e.message.field.value.includes('#run=')")
    assert "and this run itself" in page.text(".message")
    link = page.ask("e => e.message.field.value")
    assert page.ask("e => e.message.box.getBoundingClientRect().bottom <= e.lead.root.getBoundingClientRect().top")

    other = visit("?" + link.partition("?")[2])
    other.until("e => e.store.source === 'recorded' && e.store.lanes.length === 2")
    assert other.ask(IDS) == ids
    assert "#run" not in other.page.url


def test_a_link_without_a_run_and_a_broken_one_say_so(visit: Any) -> None:
    page = visit("?max_new_tokens=4#run=%%%")
    page.until("e => e.message.text.textContent === 'The run in this link cannot be read; ask for it as a file.'")
    assert page.text(".empty").startswith("Nothing has run yet.")
    page.menu("share")
    page.page.click("#ds-link")
    page.until("e => /not the run: whoever opens it presses Run/.test(e.message.text.textContent)")
    page.ask("e => { e.runs.lines = Array.from({ length: 4000 }, () => String(Math.random())); }")
    page.menu("share")
    page.page.click("#ds-link")
    page.until("e => /which is too long for a link/.test(e.message.text.textContent)")
    assert page.element.get_by_role("button", name="Save the run as a file to send beside it").is_visible()


def test_a_scene_whose_link_names_settings_shows_no_other_run(visit: Any) -> None:
    page = visit("?scene=1&max_new_tokens=4&drafter=ngram")
    page.ready()
    assert page.text(".empty").startswith("Nothing has run yet.")
    page.element.get_by_role("button", name="Run", exact=True).click()
    page.until("e => e.store.source === 'live' && e.store.lanes.length === 2 && e.store.lanes.every((l) => l.end)")
    assert page.element.get_by_role("button", name="Run", exact=True).is_visible()


def test_the_recorded_runs_are_one_press_away(lent: Any) -> None:
    page = lent(SHORT)
    page.run()
    page.ask("e => Draftscope.ask('picture', { run: 'first' })")
    page.until("e => e.store.run === 'first' && e.store.source === 'recorded'")
    page.ask("e => Draftscope.ask('picture', { run: '../lessons/round' })")
    page.until("e => /There is no run recorded as/.test(e.message.text.textContent)")
