"""A site in a real browser, from a disk and from a server: every door, lesson and choice, without an error or a request
elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from draftscope_app.doors.door import doors
from draftscope_app.lab.site import shelf
from draftscope_app.page.runs import recorded
from tests.support.alone import idle_pages
from tests.support.browsers import SLOW_MS, VIEWS, assert_accessible

pytestmark = pytest.mark.browser
NEXT = "e => e.cards.view('lessons').panel.querySelector('button.leading')"
SHOWN = "e => e.store.lanes.at(-1)?.start"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where `python -m http.server` would serve the folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


class Reader:
    """One tab; at the end it had no error and asked for nothing elsewhere."""

    def __init__(
        self, browser: Any, root: str, width: int = 1440, theme: str = "light", bypass_csp: bool = False
    ) -> None:
        self.root, self.errors, self.requests = root, list[str](), list[str]()
        self.page = idle_pages(browser, bypass_csp)[1].new_page()
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        self.page.set_default_timeout(SLOW_MS)
        self.page.on("pageerror", lambda error: self.errors.append(f"{error.message} {error.stack}"))
        self.page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, name: str) -> None:
        self.page.goto(f"{self.root}/{name}")
        self.until("e => e.store.lanes.length > 0 && e.arrived")

    def until(self, script: str) -> None:
        handle = self.page.wait_for_selector("draftscope-instrument")
        self.page.wait_for_function(f"e => ({script})(e)", arg=handle)

    def ask(self, script: str) -> Any:
        return self.page.locator("draftscope-instrument").evaluate(script)

    def close(self) -> None:
        assert not self.errors, self.errors
        assert all(url.startswith((self.root, "data:", "blob:")) for url in self.requests), self.requests
        self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")  # for the next one
        self.page.close()


@pytest.fixture
def reader(browser: Any) -> Iterator[Callable[..., Reader]]:
    opened: list[Reader] = []

    def opens(root: str, *look: Any, **more: Any) -> Reader:
        opened.append(Reader(browser, root, *look, **more))
        return opened[-1]

    yield opens
    for one in opened:
        one.close()


@pytest.mark.parametrize(("width", "theme"), VIEWS)
def test_every_door_opens_from_a_disk(reader: Callable[..., Reader], site: Path, width: int, theme: str) -> None:
    tab = reader(site.as_uri(), width, theme, bypass_csp=True)  # for axe
    for name in ("index", *(door.name for door in doors())):
        tab.open(f"{name}.html")
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert tab.ask("e => e.dataset.theme") == theme
        assert_accessible(tab.page)


def test_doors_are_links_and_keep_the_run(reader: Callable[..., Reader], address: str) -> None:
    tab = reader(address)
    tab.open("index.html")
    texts = tab.page.get_by_label("Text", exact=True)
    texts.select_option(index=1)
    tab.until("e => e.store.run.startsWith('story-')")
    shown = tab.ask("e => e.store.run")
    tab.page.get_by_role("link", name="Decide").click()
    tab.page.wait_for_url("**/decide.html*")
    tab.until(f"e => e.store.run === '{shown}'")
    assert "decide.html?run=story-" in tab.page.url
    assert tab.page.locator(".ds-calculator-headline").inner_text()


def test_every_run_can_be_chosen_and_watched(reader: Callable[..., Reader], site: Path, recordings: Path) -> None:
    tab = reader(site.as_uri())
    tab.open("index.html")
    for run in shelf.read(recordings)[1:]:
        tab.open(f"index.html?run={run.name}")
        assert tab.ask(SHOWN)["drafter"] == run.drafter
        assert tab.ask(SHOWN)["settings"]["temperature"] == run.temperature
        tab.ask("e => e.transport.toEnd()")
        lines = tab.ask("e => { e.unfold.set('Is it exact?', true); e.request(); return e.shadowRoot.textContent; }")
        assert "recorded" in lines
    tab.page.get_by_label("Temperature", exact=True).select_option(label="0")
    tab.until("e => e.store.lanes.at(-1).start?.settings.temperature === 0")


def test_every_lesson_goes_to_its_end_twice(reader: Callable[..., Reader], site: Path) -> None:
    tab = reader(site.as_uri())
    tab.open("learn.html")
    count = tab.ask("e => e.cards.view('lessons').all.length")
    assert count >= len(recorded.names())
    for number in (*range(1, count + 1), count):
        tab.ask(f"e => e.cards.view('lessons').start({number})")
        tab.until(f"e => e.cards.view('lessons').number === {number} && e.cards.view('lessons').at === 0")
        while not tab.ask(f"e => ({NEXT})(e).disabled"):
            tab.ask(f"e => ({NEXT})(e).click()")
        tab.ask("e => e.cards.view('lessons').leave()")


def test_scenes_and_the_museum(reader: Callable[..., Reader], site: Path) -> None:
    tab = reader(site.as_uri())
    tab.open("index.html?scene=1")
    for number in range(1, 7):
        tab.ask(f"e => e.scenes.to({number})")
        tab.until("e => e.main.dataset.scene")
    tab.open("servers.html")
    tab.page.get_by_role("button", name="Open the museum").click()
    tab.page.wait_for_url("**/learn.html?museum=1")
    tab.page.wait_for_selector(".exhibit")
    assert tab.page.locator(".exhibit").count() == 4


def test_what_was_recorded_of_servers(reader: Callable[..., Reader], site: Path) -> None:
    tab = reader(site.as_uri())
    tab.open("servers.html")
    assert tab.ask("e => e.store.lanes.every((lane) => lane.start.server)")
    for name in ("Load test", "Audit of plain", "Audit of drafts"):
        tab.page.get_by_role("button", name=name).click()
    tab.page.wait_for_selector(".loaded")
    audits = tab.page.locator(".audit[data-result]")
    audits.nth(1).wait_for()  # each is drawn once it is painted
    assert audits.count() == 2
    assert not tab.page.get_by_role("button", name="Choose a log").count()  # nothing here could read it
    tab.page.get_by_role("button", name="Close").first.click()


def test_the_forecast_answers_and_refuses(reader: Callable[..., Reader], site: Path) -> None:
    tab = reader(site.as_uri())
    tab.open("decide.html")
    answer = tab.page.locator(".ds-forecast [role=status]")
    first = answer.inner_text()
    assert "times plain decoding" in first
    tab.page.get_by_label("Concurrent requests", exact=True).last.fill("300")
    tab.page.keyboard.press("Tab")
    assert answer.inner_text() != first
    tab.page.get_by_label("Tokens a round, tau (0: estimated)").fill("50")
    tab.page.keyboard.press("Tab")
    assert tab.page.locator(".ds-forecast [role=alert]").inner_text()


def test_claims_can_be_predicted(reader: Callable[..., Reader], site: Path) -> None:
    tab = reader(site.as_uri())
    tab.open("decide.html")
    tab.page.get_by_text("24 claims put to the test").click()
    tab.page.locator("#ds-claims [data-guess]").first.click()
    assert "expected" in tab.page.locator(".ds-score").inner_text()
