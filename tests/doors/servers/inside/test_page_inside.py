"""Inside a server that records itself: its rounds are drawn as they come, and an earlier request is opened."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.trace import files
from draftscope.trace.events import Round
from tests.doors.servers.inside.server import recorded_by
from tests.doors.servers.stubs import Habits, stub
from tests.doors.servers.test_page_servers import add, opened
from tests.support.browsers import assert_accessible
from tests.support.visit import record

pytestmark = [pytest.mark.browser, pytest.mark.slow]

INSIDE = "e => e.store.lanes[0]?.start?.server?.inside && e.state === 'done'"


def remove(page: Any, name: str) -> None:
    page.door("servers")
    page.element.get_by_role("button", name=f"Remove {name}").click()
    page.until(f"e => !e.cards.view('servers').known.servers.some((server) => server.name === '{name}')")


def test_rounds_of_a_server_are_drawn_saved_and_opened_again(lent: Any, tmp_path: Any) -> None:
    with recorded_by() as (url, server):
        page = opened(lent, "?max_new_tokens=24&temperature=1&prompt=w1%20w2")
        add(page, f"own={url}", "own")
        page.element.get_by_role("button", name="Inside own").click()
        page.element.get_by_role("button", name="Write the prompt and watch").click()
        page.until(INSIDE)
        page.to_end()
        assert page.ask("e => e.store.lanes[0].tokens.map((token) => token.id)") == server.written
        rejecting = "e => e.store.lanes[0].rounds.findIndex((r) => r.nodes.some((n) => n.fate === 'rejected'))"
        page.ask("(e, round) => e.cursor.select(e.store.lanes[0], round)", page.ask(rejecting))
        page.painted()
        shown = page.text(".pair")
        assert "min(1, p/q)" in shown and "is sampled from the residual distribution, norm" in shown
        assert "sampled from the residual" in shown and "argmax" not in shown
        assert not page.element.get_by_role("group", name="Fork here").count()
        assert_accessible(page.page)
        saved = [event for event in files.read(record(page, tmp_path)).events if isinstance(event, Round)]
        assert next(event.emitted for event in saved) == server.rounds[0].written
        page.page.set_viewport_size({"width": 390, "height": 844})
        page.page.wait_for_function("document.documentElement.scrollWidth <= 390")
        page.page.set_viewport_size({"width": 1440, "height": 1000})
        page.element.get_by_role("button", name="Look again", exact=True).click()
        page.until("e => e.shadowRoot.querySelector('[aria-label^=Recorded]')?.value === 'made-up'")
        page.element.get_by_role("button", name="Open", exact=True).click()
        page.until(f"{INSIDE} && !e.store.lanes[0].end && e.store.lanes[0].rounds.length === {len(server.rounds)}")
        remove(page, "own")


def test_a_server_that_records_itself_races_beside_a_plain_one_which_says_how_to_get_a_recorder(lent: Any) -> None:
    with recorded_by() as (url, server), stub(Habits()) as plainly:
        page = opened(lent, "?max_new_tokens=24&temperature=1&prompt=w1%20w2")
        add(page, f"plain={plainly}", "plain")
        add(page, f"fast={url}", "fast")
        page.element.get_by_role("button", name="Inside fast").click()
        page.element.get_by_label("Race it beside").select_option("plain")
        page.element.get_by_role("button", name="Write the prompt and watch").click()
        page.until(INSIDE.replace("lanes[0]", "lanes[1]"))
        page.to_end()
        lanes = page.ask("e => e.store.lanes.map((l) => [l.name, Boolean(l.start.server.inside), l.tokens.length])")
        assert lanes == [["plain", False, 24], ["fast", True, 24]]
        assert page.ask("e => e.store.lanes[1].tokens.map((token) => token.id)") == server.written
        headline = page.text(".lead h2")
        assert "plain wrote 24 tokens in 24 bursts, fast 24 in" in headline and "rounds; fast is" in headline
        assert "all at the same moment" in page.text(".lead .basis")
        rejecting = "e => e.store.lanes[1].rounds.findIndex((r) => r.nodes.some((n) => n.fate === 'rejected'))"
        page.ask("(e, round) => e.cursor.select(e.store.lanes[1], round)", page.ask(rejecting))
        page.painted()
        assert "min(1, p/q)" in page.text(".pair")
        page.ask("e => e.cursor.select(e.store.lanes[0], 3)")
        page.until("e => e.pair.hidden")  # a burst has no round to draw
        page.ask("e => e.cursor.select(e.store.lanes[1], 0)")
        page.until("e => !e.pair.hidden")
        assert_accessible(page.page)
        page.page.set_viewport_size({"width": 390, "height": 844})
        page.page.wait_for_function("document.documentElement.scrollWidth <= 390")
        page.door("servers")
        page.element.get_by_role("button", name="Inside plain").click()
        page.until("e => !e.message.box.hidden && e.message.text.textContent.includes('install draftscope-vllm there')")
        remove(page, "plain")
        remove(page, "fast")
