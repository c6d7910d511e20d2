"""A card is one folder: it stands where it says, on the page, in scenes, in lessons and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace import html
from tests.support.alone import Alone
from tests.support.raced import race_of

pytestmark = pytest.mark.browser

FOLDER = Path(__file__).with_name("wasted")
SHOWN = "e => e.shadowRoot.querySelector('.wasted').checkVisibility()"
STEP = "(e, words) => { if (words) e.main.dataset.show = words; else delete e.main.dataset.show; e.request(); }"


@pytest.fixture(scope="module")
def path(pair: DecodingEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's file, whose instrument has the card."""
    script = partial(html.script, {"doors/decide/wasted": FOLDER})
    with mock.patch.object(html, "script", script):
        page = html.page(race_of(pair, drafter="draft", gamma=3, rule="token"))
    written = tmp_path_factory.mktemp("wasted") / "run.html"
    written.write_text(page, encoding="utf-8")
    return written


@pytest.fixture(scope="module")
def page(browser: Any, path: Path) -> Iterator[Alone]:
    """Which every test leaves as it was."""
    opened = Alone(browser, path)
    yield opened
    opened.close()


def test_it_stands_on_watch_as_wide_as_the_round(page: Alone) -> None:
    page.ask("e => e.transport.toEnd()")
    page.painted()
    wide = "(e, name) => Math.round(e.shadowRoot.querySelector(name).getBoundingClientRect().width)"
    assert page.ask(wide, ".wasted") == page.ask(wide, ".pair")
    drafted, accepted = page.ask("""e => {
        const lane = Inside.draftLane(e.store);
        const { drafted, accepted } = Inside.draftTotals(lane, lane.rounds.length);
        return [drafted, accepted];
    }""")
    assert page.text(".wasted").strip() == f"{drafted - accepted} of {drafted} drafted tokens were in vain"


@pytest.mark.parametrize(("number", "shown"), [(1, True), (2, False), (3, False), (4, False), (5, False), (6, False)])
def test_it_stands_in_its_scenes_only(page: Alone, number: int, shown: bool) -> None:
    page.ask(f"e => e.scenes.to({number})")
    page.painted()
    assert page.ask(SHOWN) is shown
    page.ask("e => e.scenes.to(0)")
    page.painted()
    assert page.ask(SHOWN)


@pytest.mark.parametrize(("words", "shown"), [("lanes strip", False), ("none", False), ("wasted", True), ("", True)])
def test_a_step_of_a_lesson_shows_it_by_its_word(page: Alone, words: str, shown: bool) -> None:
    page.ask(STEP, words)
    page.painted()
    assert page.ask(SHOWN) is shown
    page.ask(STEP, "")


def test_it_fits_a_phone(browser: Any, path: Path) -> None:
    page = Alone(browser, path, viewport={"width": 390, "height": 844})
    page.painted()
    assert page.ask(SHOWN)
    assert page.ask("() => document.documentElement.scrollWidth <= innerWidth")
    page.close()
