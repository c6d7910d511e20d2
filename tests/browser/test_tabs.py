"""Several tabs of one browser: it opens six connections to an address, for all of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.visit import ENDLESS, Visit, visitor

pytestmark = [pytest.mark.browser, pytest.mark.slow]

OPEN, RUNNING = 6, 4  # a run holds a connection, a page that loads another one, a press of Stop needs one
# A page that is left says so; it holds no connection by whose end that is seen.
KEEP_BEACON = "() => { navigator.sendBeacon = (url, token) => localStorage.setItem('left', `${url} ${token}`); }"


def test_four_of_six_tabs_run_at_once_and_are_stopped_while_another_loads(browser: Any, address: str) -> None:
    """Each tab's heartbeat held a connection: with six tabs none of the runs began, and the sixth did not load."""
    context = visitor(browser)
    tabs = [Visit(context, address, ENDLESS + "&temperature=1", reduced_motion="reduce") for _ in range(OPEN)]
    for tab in tabs:
        tab.ready()
    for tab in tabs[:RUNNING]:
        tab.page.click("#ds-run")
    for tab in tabs[:RUNNING]:
        tab.until("e => e.store.source === 'live' && ['queued', 'running'].includes(e.state)")
    tabs[-1].page.evaluate(KEEP_BEACON)
    tabs[-1].reload()
    assert re.fullmatch(rf"{address}left [0-9a-f]{{32}}", tabs[-1].page.evaluate("() => localStorage.left"))
    for tab in tabs[:RUNNING]:
        tab.until("e => e.state !== 'queued' && e.store.source === 'live' && e.store.lanes.length === 2")
        tab.page.evaluate("for (const _ of [1, 2]) document.querySelector('#ds-stop').click()")
        tab.until("e => e.store.lanes.every((lane) => lane.end)")
        tab.close()
    tabs[-1].close()
    context.close()
