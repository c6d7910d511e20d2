"""A run's own HTML file in a real browser, for the tests of whatever the instrument does without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import inside
from tests.support.browsers import ARTIFACTS, SLOW_MS


class Alone:
    """One open file and the instrument on it. At the end it had no error and asked for nothing outside."""

    def __init__(self, browser: Any, path: Path, query: str = "", frame: bool = False, **context: Any) -> None:
        self.context = browser.new_context(**({"viewport": {"width": 1440, "height": 1000}} | context))
        self.context.add_init_script(inside.script())
        self.page = self.context.new_page()
        self.page.set_default_timeout(SLOW_MS)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri() + query)
        self.inside = self.page.frames[-1] if frame else self.page
        self.inside.wait_for_selector("draftscope-instrument .ds")
        self.until("e => e.store.lanes.length > 0")

    @property
    def element(self) -> Any:
        return self.inside.locator("draftscope-instrument")

    def ask(self, script: str) -> Any:
        return self.element.evaluate(script)

    def until(self, script: str) -> None:
        handle = self.inside.query_selector("draftscope-instrument")
        self.inside.wait_for_function(f"e => ({script})(e)", arg=handle)

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
        self.context.close()
