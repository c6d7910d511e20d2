"""A page that stays open from one test to the next: to load one takes longer than most of what tests do on it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from draftscope_app.page import opening_settings
from draftscope_app.page.controls import defaults, from_query
from tests.support.visit import Visit

SIZE = {"width": 1440, "height": 1000}
HOLD = """(values) => Object.entries(values).every(([name, value]) => {
    const field = document.querySelector(`#ds-${name.replaceAll("_", "-")} :is(textarea, input[type=number])`);
    return !field || field.value === String(value);
})"""
TIDY = """async (e) => {
    e.guest?.leave();
    e.scenes.to(0);
    e.transport.speed = 0;
    const folds = e.shadowRoot.querySelectorAll("button.unfold[aria-expanded=true]");
    for (const button of folds) button.click();
    for (const details of e.shadowRoot.querySelectorAll("details[open]")) details.open = false;
    document.querySelector("nav a[data-door=watch]").click(); // closes the menus too
    if (document.querySelector("#ds-controls").classList.contains("ds-open"))
        document.querySelector("#ds-settings").click();
    document.querySelector("#ds-stop").click();
    document.activeElement.blur();
    if (document.body.classList.contains("dark")) Draftscope.flipTheme();
}"""
FIRST = """(e) => {
    if (e.store.lanes.length) e.store.lanes[0].left = true; // the run may be the same one, which then comes anew
    Draftscope.ask("picture", { run: "first" });
}"""
# What is seen but for the controls, which are set for the next test, and what is told about them and earlier runs.
SEEN = """(e) => {
    e.message.hide();
    scrollTo(0, 0);
    localStorage.clear();
    sessionStorage.clear();
    localStorage.setItem("draftscope-opening", "true");
    history.replaceState(null, "", "/");
    const parts = [document.querySelector("#ds-top"), e.main].map((part) => part.innerText);
    const own = [".changed", ".earlier"].map((name) => e.shadowRoot.querySelector(name).innerText);
    const words = own.reduce((all, each) => all.replace(each, ""), parts.join(" ")).split(/\\s+/).join(" ");
    return [document.title, [...document.querySelector("#ds-controls").classList], words];
}"""


class Lent:
    """A visitor's page that each test finds as it opens, with what it asks for in the controls. What only a page that
    was just loaded shows, and what a test cannot undo, needs a `visit`."""

    def __init__(self, context: Any, address: str) -> None:
        self._context, self._address = context, address
        self._page: Visit | None = None
        self._as_opened: Any = None

    def take(self, query: str = "") -> Visit:
        """With the settings of an address's query."""
        if self._page is None:
            page = Visit(self._context, self._address, reduced_motion="reduce")
            page.ready()
            self._page, self._as_opened = page, page.ask(SEEN)
        page = self._page
        page.page.bring_to_front()
        opened = defaults() | opening_settings.settings("draft")
        values, odd = from_query(dict(parse_qsl(query.removeprefix("?"))), opened)
        assert not odd, odd
        put(page, values)
        return page

    def give_back(self) -> None:
        """Its run stopped, its door and its address left, its recorded run shown: as it was opened, or it is closed and
        the test that leaves it otherwise fails."""
        page, self._page = self._page, None
        if page is None:
            return
        try:
            page.page.unroute_all()
            page.page.set_viewport_size(SIZE)
            page.page.emulate_media(reduced_motion="reduce")
            page.ask(TIDY)
            page.until("e => !e.busy")
            if page.ask(SEEN) != self._as_opened:
                show_first(page)
            seen = page.ask(SEEN)
            assert seen == self._as_opened, (seen, self._as_opened)
            page.assert_quiet()
        except BaseException:
            page.page.close()
            raise
        self._page = page


def show_first(page: Visit) -> None:
    """The recorded run with which the page opens, at its beginning."""
    page.ask(FIRST)
    page.until("e => e.store.run === 'first' && e.store.source === 'recorded' && e.store.lanes[0]?.left === undefined")
    page.until("e => e.store.lanes.length > 0")
    page.painted(4)


def put(page: Visit, values: dict[str, Any]) -> None:
    """Sets all controls as a lesson does."""
    page.page.evaluate("(values) => Draftscope.ask('set', values)", values)
    page.painted(4)  # the drafter's own controls are there and filled
    page.page.wait_for_function(HOLD, arg=values)
