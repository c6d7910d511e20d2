"""Nothing moves while a run plays, and no part of a decision is behind a scroll bar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftscope.base.assets import assets
from draftscope.decode.engine import DecodingEngine
from draftscope.trace import files
from draftscope.trace import html as player
from draftscope.trace.events import AnyEvent
from tests.support.alone import Alone
from tests.support.raced import race_of

pytestmark = pytest.mark.browser
MAX_SHIFT = 0.05  # in sum, over a whole run
SIZE = {"width": 1440, "height": 900}
WATCH = """() => { window.shifts = [];
    const observer = new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((at) => at.value)));
    observer.observe({ type: "layout-shift" }); }"""
FROM_THE_START = "e => { e.opening.offer(false); e.transport.seek(0); e.cursor.followClock(); }"
KEPT = (".lanes", ".lane:nth-child(2) .pane", ".strip", ".card.tree", ".decision", ".scale")
WITH_FORKS = "Draftscope.connect({ events: ['fork', 'set'], trigger: () => {}, server: {} })"
HIDDEN = """e => { // what is cut off, of every decision of the run
    const lane = e.store.lanes[1], cut = [];
    for (const round of lane.rounds)
        for (const slot of Inside.slotsOf(round)) {
            e.cursor.select(lane, round.index);
            e.cursor.open(slot, null);
            e.paint();
            const card = e.shadowRoot.querySelector(".decision"), body = card.querySelector(".decision-body");
            const fork = card.querySelector(".fork").getBoundingClientRect();
            const below = !fork.height || fork.bottom > card.getBoundingClientRect().bottom;
            if (body.scrollHeight > body.clientHeight || below)
                cut.push([round.index, slot, body.scrollHeight - body.clientHeight]);
        }
    return cut; }"""


def opened(browser: Any, events: list[AnyEvent], path: Path) -> Alone:
    path.write_text(player.page(events), encoding="utf-8")
    return Alone(browser, path, viewport=SIZE)


@pytest.fixture
def shipped() -> list[AnyEvent]:
    return list(files.read(assets() / "traces" / "first.jsonl.gz").events)


@pytest.fixture
def long(pair: DecodingEngine) -> list[AnyEvent]:
    return race_of(pair, drafter="sampled-tree", shape=(2, 2, 1), max_new_tokens=200)


@pytest.mark.parametrize("name", ["shipped", "long"])
def test_a_run_that_plays_leaves_everything_in_its_place(
    browser: Any, request: pytest.FixtureRequest, name: str, tmp_path: Path
) -> None:
    """A run of 200 tokens had 291 layout shifts, .94 in sum: lanes had three heights, and what is below them jumped."""
    page = opened(browser, request.getfixturevalue(name), tmp_path / "run.html")
    page.ask(FROM_THE_START)
    page.painted()
    before = [page.element.locator(part).bounding_box() for part in KEPT]
    page.page.evaluate(WATCH)
    page.ask("e => { e.transport.speed = 3000 / e.transport.end; e.transport.play(); }")
    page.until("e => e.transport.whole && !e.transport.playing")
    page.painted()
    shifts = page.page.evaluate("window.shifts")
    print(f"{name}: {len(shifts)} layout shifts, {sum(shifts):.4f} in sum")
    assert sum(shifts) < MAX_SHIFT
    assert [page.element.locator(part).bounding_box() for part in KEPT] == before
    page.close()


@pytest.mark.parametrize(
    "own",
    [
        {"drafter": "draft", "gamma": 4, "temperature": 0.0},
        {"drafter": "draft", "gamma": 4, "rule": "token"},
        {"drafter": "draft", "gamma": 4, "rule": "block"},
        {"drafter": "sampled-tree", "shape": (3, 2, 1)},
        {"drafter": "topk-tree", "shape": (3, 2)},
    ],
)
def test_a_decision_is_whole_at_900_pixels(
    browser: Any, pair: DecodingEngine, own: dict[str, Any], tmp_path: Path
) -> None:
    """Its bars, the legend, alpha and the fork: the last ones were behind a scroll bar of their own."""
    page = opened(browser, race_of(pair, **own), tmp_path / "run.html")
    page.page.evaluate(WITH_FORKS)
    page.ask("e => e.transport.toEnd()")
    page.painted()
    assert page.ask(HIDDEN) == []
    page.close()


@pytest.mark.slow
def test_a_decision_of_the_shipped_run_is_whole_too(browser: Any, shipped: list[AnyEvent], tmp_path: Path) -> None:
    page = opened(browser, shipped, tmp_path / "run.html")
    page.page.evaluate(WITH_FORKS)
    page.ask("e => e.transport.toEnd()")
    page.painted()
    assert page.ask(HIDDEN) == []
    page.close()


def test_the_opening_and_the_clock_are_one_transport(browser: Any, shipped: list[AnyEvent], tmp_path: Path) -> None:
    """Two figures of slow motion stood on the page, and P stopped only one of them."""
    page = opened(browser, shipped, tmp_path / "run.html")
    page.ask("e => { e.opening.offer(true); e.opening.start(); }")
    page.painted()
    told = page.element.inner_text()
    assert told.count("slowed ") - page.element.locator("option", has_text="slowed").count() <= 1
    slow = page.ask("e => e.opening.slow")
    assert page.text(".clock > .pace") == f"slowed {slow}×"
    page.element.get_by_role("button", name="Pause").click()
    page.painted()
    assert page.ask("e => e.opening.playing && e.opening.paused")
    page.ask("e => e.main.focus()")
    page.page.keyboard.press("p")
    assert page.ask("e => e.opening.playing && !e.opening.paused")
    page.element.get_by_role("button", name="Skip to end").click()
    page.painted()
    assert page.ask("e => !e.opening.playing && e.transport.whole && e.transport.guide === null")
    page.close()
