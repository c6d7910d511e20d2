"""Bytes, requests and layout shifts of a first visit and of a run are held; times are printed."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.visit import Visit, visitor

pytestmark = pytest.mark.browser
MOST_BYTES, MOST_REQUESTS, MOST_SHIFT = 150_000, 80, 0.05  # a run of 200 tokens had shifts of .94 in sum
WATCH = """window.seen = { shifts: [], long: [], largest: [] };
const watch = (type, name, of) => new PerformanceObserver((list) =>
    window.seen[name].push(...list.getEntries().map(of))).observe({ type, buffered: true });
watch("layout-shift", "shifts", (entry) => entry.value);
watch("longtask", "long", (entry) => entry.duration);
watch("largest-contentful-paint", "largest", (entry) => entry.startTime);"""
FIRST = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
FRONT = "() => document.querySelector('#ds-front') === null"


class Fetched:
    """Everything that a page asks for over the network, as (address, bytes that were sent)."""

    def __init__(self, page: Any) -> None:
        self.sent: dict[str, tuple[str, int]] = {}
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.responseReceived", lambda event: self._begin(event["requestId"], event["response"]["url"]))
        session.on("Network.loadingFinished", lambda event: self._end(event["requestId"], event["encodedDataLength"]))

    def _begin(self, request: str, url: str) -> None:
        if url.startswith("http"):
            self.sent[request] = (url, 0)

    def _end(self, request: str, size: float) -> None:
        if request in self.sent:
            self.sent[request] = (self.sent[request][0], int(size))

    def of(self, url: str) -> int:
        return next(size for sent, size in self.sent.values() if sent == url)


@pytest.fixture
def newcomer(browser: Any) -> Iterator[Any]:
    """Who has none of the page's files."""
    context = visitor(browser, viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    context.add_init_script(WATCH)
    yield context
    context.close()


def test_a_first_visit_is_light_and_nothing_moves(newcomer: Any, address: str) -> None:
    """The document was 1.2 MB and not compressed, and nothing but "Loading..." was painted for four seconds."""
    page = newcomer.new_page()
    fetched = Fetched(page)
    page.goto(address)
    page.wait_for_function(FRONT)
    page.wait_for_function("() => document.querySelector('draftscope-instrument').arrived && seen.largest.length")
    document, requests = fetched.of(address), len(fetched.sent)
    plain = len(urllib.request.urlopen(address).read())
    seen = page.evaluate("window.seen")
    print(
        f"document {document} bytes sent, {plain} not compressed; {requests} requests, {_total(fetched)} bytes in all"
    )
    print(f"first content {page.evaluate(FIRST):.0f} ms, largest {seen['largest'][-1]:.0f} ms")
    print(f"layout shifts {sum(seen['shifts']):.4f}; tasks longer than 50 ms: {[round(ms) for ms in seen['long']]}")
    assert document < MOST_BYTES
    assert requests <= MOST_REQUESTS
    assert sum(seen["shifts"]) < MOST_SHIFT


def test_the_first_picture_needs_no_script(browser: Any, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    front = page.locator("#ds-front")
    assert front.get_by_role("link").all_inner_texts()[0] == "Watch"
    assert all(front.locator("p").nth(lane).is_visible() for lane in (0, 1))
    page.goto(f"{address}?door=learn")
    assert not front.count()
    context.close()


SHOWN = "e => e.lanes.map(({ pane }) => [pane.scrollTop, pane.clientHeight, pane.scrollHeight])"


def test_a_run_of_200_tokens_moves_nothing_and_its_text_is_scrolled_by_whole_lines(visit: Any) -> None:
    """Its first line was half cut."""
    page = visit("?max_new_tokens=200&temperature=1", reduced_motion="no-preference")
    page.ready()
    page.page.evaluate(WATCH)
    page.painted()
    page.page.evaluate("() => { for (const list of Object.values(window.seen)) list.length = 0; }")
    page.run()
    seen = page.page.evaluate("window.seen")
    print(f"layout shifts {sum(seen['shifts']):.4f}; tasks longer than 50 ms: {[round(ms) for ms in seen['long']]}")
    assert sum(seen["shifts"]) < MOST_SHIFT
    for move in ("lanes[1].toEnd()", "cursor.select(e.store.lanes[1], 9)", "lanes[0].scrollTo(31)"):
        page.ask(f"e => e.{move}")
        page.painted()
        for top, tall, whole in page.ask(SHOWN):
            assert top % 23 == (tall - 4) % 23 == (whole - 4) % 23 == 0
    page.element.locator(".pane").first.hover()
    page.page.mouse.wheel(0, -37)
    page.until("e => e.lanes[0].pane.scrollTop % 23 === 0")


def _total(fetched: Fetched) -> int:
    return sum(size for _, size in fetched.sent.values())


COUNTED = """window.asked = 0;
const frame = requestAnimationFrame;
requestAnimationFrame = (act) => (asked++, frame(act));"""
RESTS = """async () => {
    for (let tries = 0; tries < 20; tries++) {
        const before = asked;
        await new Promise((done) => setTimeout(done, 500));
        if (asked === before) return true;
    }
    return false;
}"""


def test_a_page_at_rest_draws_nothing(browser: Any, address: str) -> None:
    """Gradio counted the seconds of the page's opening for as long as the page was open, sixty times a second."""
    context = visitor(browser, reduced_motion="reduce")
    context.add_init_script(COUNTED)
    page = Visit(context, address)
    page.ready()
    assert page.page.evaluate("asked") > 0
    assert page.page.evaluate(RESTS)
    page.close()
    context.close()
