"""A run's own HTML file in a real browser, for the tests of whatever the instrument does without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from draftscope.base.assets import assets
from tests.support import inside
from tests.support.browsers import ARTIFACTS, SLOW_MS

VIEWPORT = {"width": 1440, "height": 1000}
Pages = tuple[list[Any], Any]  # that show nothing, and the context that they belong to
IDLE: WeakKeyDictionary[Any, dict[bool, Pages]] = WeakKeyDictionary()  # of each browser, by `bypass_csp`


def idle_pages(browser: Any, bypass_csp: bool) -> Pages:
    """Files are opened in the same pages one after the other: a new tab costs as much as a file, and a new context
    starts a process, which compiles the instrument again."""
    kinds = IDLE.setdefault(browser, {})
    if bypass_csp not in kinds:
        context = browser.new_context(bypass_csp=bypass_csp)
        context.new_page().goto((assets() / "page.css").as_uri())  # as long as this file is open, the process is there
        context.add_init_script(inside.script())
        kinds[bypass_csp] = [], context
    return kinds[bypass_csp]


class Alone:
    """One open file and the instrument on it. At the end it had no error and asked for nothing outside."""

    def __init__(
        self,
        browser: Any,
        path: Path,
        query: str = "",
        frame: bool = False,
        viewport: dict[str, int] = VIEWPORT,
        bypass_csp: bool = False,
        color_scheme: str = "light",
        reduced_motion: str = "no-preference",
    ) -> None:
        """`bypass_csp` is for axe."""
        self._idle, context = idle_pages(browser, bypass_csp)
        self.page = self._idle.pop() if self._idle else context.new_page()
        self.page.bring_to_front()  # a tab behind another paints once a second
        self.page.set_viewport_size(viewport)
        self.page.emulate_media(color_scheme=color_scheme, reduced_motion=reduced_motion)
        self.page.set_default_timeout(SLOW_MS)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._listeners = {"pageerror": self._failed, "console": self._logged, "request": self._asked}
        for event, listener in self._listeners.items():
            self.page.on(event, listener)
        self.page.goto(path.as_uri() + query)
        self.inside = self.page.frames[-1] if frame else self.page
        self.inside.wait_for_selector("draftscope-instrument .ds")
        self.until("e => e.store.lanes.length > 0")

    def _failed(self, error: Any) -> None:
        self.errors.append(str(error))

    def _logged(self, line: Any) -> None:
        if line.type == "error":
            self.errors.append(line.text)

    def _asked(self, request: Any) -> None:
        self.requests.append(request.url)

    @property
    def element(self) -> Any:
        return self.inside.locator("draftscope-instrument")

    def ask(self, script: str, given: Any = None) -> Any:
        return self.element.evaluate(script, given)

    def until(self, script: str) -> None:
        """This is true of the instrument, and has been painted."""
        handle = self.inside.query_selector("draftscope-instrument")
        self.inside.wait_for_function(f"e => ({script})(e)", arg=handle)
        self.ask("() => new Promise(requestAnimationFrame)")

    def painted(self) -> None:
        """Two frames later whatever was asked for has been painted."""
        self.ask("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def unfold(self, title: str) -> None:
        self.element.get_by_role("button", name=title).click()
        self.painted()

    def text(self, selector: str) -> str:
        return str(self.element.locator(selector).first.inner_text())

    def shot(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)

    def close(self) -> None:
        assert not self.errors, self.errors
        assert "cannot draw" not in self.ask("e => e.message.text.textContent")
        assert all(url.startswith(("file:", "data:", "blob:", "about:")) for url in self.requests), self.requests
        self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")  # for the next one
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        self.page.mouse.move(0, 0)
        self.page.goto("about:blank")
        self._idle.append(self.page)
