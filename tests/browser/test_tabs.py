"""Several tabs of one browser: it opens six connections to an address, for all of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.visit import Visit, visitor

pytestmark = [pytest.mark.browser, pytest.mark.slow]

OPEN, RUNNING = 6, 4  # a run holds a connection, a page that loads another one, a press of Stop needs one
# A page that is left says so; it holds no connection by whose end that is seen.
KEEP_BEACON = "() => { navigator.sendBeacon = (url, token) => localStorage.setItem('left', `${url} ${token}`); }"


def test_four_of_six_tabs_run_at_once_and_are_stopped_while_another_loads(browser: Any, address: str) -> None:
    """Each tab's heartbeat held a connection: with six tabs none of the runs began, and the sixth did not load. A run
    in steps holds its connection as any other, and waits."""
    context = visitor(browser)
    tabs = [Visit(context, address, "?temperature=1", reduced_motion="reduce") for _ in range(OPEN)]
    for tab in tabs:
        in_front(tab).ready()
    for tab in tabs[:RUNNING]:
        in_front(tab).page.click("#ds-step")
    for tab in tabs[:RUNNING]:
        in_front(tab).until("e => e.store.source === 'live' && e.store.lanes.length === 2 && e.state === 'stepping'")
    in_front(tabs[-1]).page.evaluate(KEEP_BEACON)
    tabs[-1].reload()
    assert re.fullmatch(rf"{address}left [0-9a-f]{{32}}", tabs[-1].page.evaluate("() => localStorage.left"))
    for tab in tabs[:RUNNING]:
        assert in_front(tab).ask("e => e.state") == "stepping"
        tab.page.click("#ds-stop")
        tab.until("e => e.store.lanes.every((lane) => lane.end) && e.state === 'done'")
        tab.close()
    tabs[-1].close()
    context.close()


def in_front(tab: Visit) -> Visit:
    """A tab behind another paints once a second."""
    tab.page.bring_to_front()
    return tab
