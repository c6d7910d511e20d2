"""One visitor's page of a running server, in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from draftscope_app.page import controls
from tests.support import inside
from tests.support.browsers import SLOW_MS

# Still runs when Stop is pressed, however slow the page is: a round writes little more than a token, since hardly
# anything stands twice in a random text, and the models that tests serve have no end of text.
ENDLESS = "?max_new_tokens=2000&drafter=ngram&temperature=1"
UNFOLDS = ("Resample", "Why this fast", "Is it exact?", "Compare")
BUILT = ("#ds-decide", "#ds-calculator", "#ds-advice-measure", "#ds-claims", "#ds-experiments")  # by Gradio, one by one
FRAMES = """(e, frames) => new Promise((done) => {
    const next = (left) => (left ? requestAnimationFrame(() => next(left - 1)) : done());
    next(frames);
})"""
EVIL = '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>${window.pwned=3}{{pwned}}'


def visitor(browser: Any, first: bool = False, **options: Any) -> Any:
    """A browser context of a visitor's own, in which tests reach the instrument's functions as `Inside`. Who comes for
    the `first` time sees the opening play."""
    context = browser.new_context(**({"viewport": {"width": 1440, "height": 1000}} | options))
    context.add_init_script(inside.script())
    if not first:
        context.add_init_script("localStorage.setItem('draftscope-opening', 'true')")
    return context


def forget(context: Any, address: str) -> None:
    """Leaves of an earlier visit only what was fetched: its pages are closed, what they stored is cleared."""
    first, *others = context.pages
    for page in others:
        page.close()
    everything = {"origin": address.rstrip("/"), "storageTypes": "all"}
    context.new_cdp_session(first).send("Storage.clearDataForOrigin", everything)


UNFOLDED = "() => document.querySelector('#ds-controls').classList.contains('ds-open')"
MORE = """() => {
    const open = document.querySelector('#ds-controls').classList.contains('ds-open');
    if (!open) document.querySelector('#ds-settings').click();
}"""


class Visit:
    """One open page and the instrument on it."""

    def __init__(
        self,
        context: Any,
        address: str,
        query: str = "",
        wait: bool = True,
        viewport: dict[str, int] | None = None,
        **media: str,
    ) -> None:
        self.context = context
        self.page = context.new_page()
        self.page.emulate_media(**media)
        if viewport:
            self.page.set_viewport_size(viewport)
        self.page.set_default_timeout(SLOW_MS)
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(f"{error.message} {error.stack}"))
        self.page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)
        self.page.goto(address + query, wait_until="load" if wait else "commit")
        if wait:
            self.commit()

    def commit(self) -> None:
        """The instrument is there and shows its recorded run, unless the address says what to run."""
        self.page.wait_for_selector("draftscope-instrument .ds")
        if self.names_run():
            self.painted()
        else:
            self.until("e => e.store.lanes.length > 0")

    def names_run(self) -> bool:
        """The address says what to run: no other run is shown."""
        words = parse_qs(urlsplit(self.page.url).query)
        return "teach" in words or any(name in words for name in controls.names())

    def reload(self) -> None:
        self.assert_quiet()
        self.page.reload()
        self.commit()
        self.errors.clear()  # of the page that was left: Gradio's client reports the connections that its end cuts off

    @property
    def element(self) -> Any:
        return self.page.locator("draftscope-instrument")

    def ask(self, script: str, given: Any = None) -> Any:
        return self.element.evaluate(script, given)

    def until(self, script: str) -> None:
        """This is true of the instrument, and has been painted."""
        handle = self.page.query_selector("draftscope-instrument")
        self.page.wait_for_function(f"e => ({script})(e)", arg=handle)
        self.painted(1)

    def text(self, selector: str) -> str:
        return str(self.element.locator(selector).first.inner_text())

    def ready(self) -> None:
        """The models are loaded and the address's settings stand in the controls."""
        self.until("e => e.arrived")
        self.page.wait_for_function("() => / loaded in /.test(document.querySelector('.ds-engine').textContent)")

    def run(self, alone: bool = False) -> None:
        """A run to its end; with `alone` the solo runs behind the race too, which are stopped otherwise."""
        self.ready()
        before, over = json.dumps(self.ask("e => e.store.run")), json.dumps(["done"] if alone else ["done", "solo"])
        self.page.click("#ds-run")
        self.until(f"e => e.store.run !== {before} && {over}.includes(e.state)")
        if not alone:
            # The first stops the picture, where it still plays; the second what the engine does meanwhile.
            self.page.evaluate("for (const _ of [1, 2]) document.querySelector('#ds-stop').click()")
            self.until("e => e.state === 'done'")
        self.to_end()

    def to_end(self) -> None:
        self.ask("e => e.transport.toEnd()")
        self.painted()

    def painted(self, frames: int = 2) -> None:
        """So many frames later; after two, whatever was asked for has been painted."""
        self.ask(FRAMES, frames)

    def open(self, accordion: str, field: str) -> None:
        """Opens one of Gradio's accordions that holds this `field`. The first time it fills the fields in only now, and
        writes each value once more up to two frames later: over whatever was entered meanwhile."""
        if accordion == "More settings":
            self.more()
        else:
            self.page.get_by_role("button", name=accordion).first.click()
        self.page.wait_for_selector(f"#ds-{field}", state="visible")
        self.painted(4)

    def more(self) -> None:
        """Unfolds the settings that do not stand in the composer's row."""
        self.page.evaluate(MORE)
        self.page.wait_for_function(UNFOLDED)

    def fill(self, name: str, value: str) -> None:
        if self.page.query_selector(f"#ds-more #ds-{name}"):
            self.more()
        self.page.fill(f"#ds-{name} textarea, #ds-{name} input[type=number], #ds-{name} input[type=text]", value)

    def choose(self, drafter: str) -> None:
        """Picks a drafter from the list by the start of its title."""
        self.ready()
        self.page.click("#ds-drafter input")
        self.page.locator("ul[role=listbox] li", has_text=drafter).first.click()

    def door(self, name: str) -> None:
        self.page.click(f"nav a[data-door={name}]")
        for part in BUILT if name == "decide" else ():
            self.page.wait_for_selector(part)
        self.painted(4 if name == "decide" else 2)  # built when it is first opened: see `open`

    def menu(self, name: str) -> None:
        self.page.click(f"[data-opens=ds-{name}]")

    def unfold(self, title: str) -> None:
        self.element.get_by_role("button", name=title).click()
        self.painted()

    def figure(self, name: str) -> str:
        part = "Is it exact?" if name == "distribution" else "Why this fast"
        if not self.element.get_by_role("region", name=part, exact=True).count():
            self.unfold(part)
        return str(self.element.locator(f"[data-figure={name}]").inner_text())

    def close(self) -> None:
        self.assert_quiet()
        self.page.close()

    def assert_quiet(self) -> None:
        """No error was reported, and nothing outside was asked for."""
        assert not self.errors, self.errors
        assert "cannot draw" not in self.ask("e => e.message.text.textContent")
        outside = [url for url in self.requests if not re.match(r"(http://127\.0\.0\.1[:/]|data:|blob:)", url)]
        assert not outside, outside


def load(page: Visit, path: Path) -> None:
    page.page.locator("#ds-load input[type=file], input[type=file]").first.set_input_files(path)


def record(page: Visit, folder: Path) -> Path:
    page.menu("share")
    with page.page.expect_download() as download:
        page.page.click("#ds-save")
    path = folder / "own.jsonl.gz"
    download.value.save_as(path)
    return path
