"""The card in a browser: over a run's text, with the text of a window beside it."""

from __future__ import annotations

from functools import partial
from math import ceil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace import html
from draftscope_app.doors.door import task
from tests.support.alone import Alone
from tests.support.raced import race_of

pytestmark = pytest.mark.browser

FOLDER = task("acceptance")

OPEN = """e => [...e.shadowRoot.querySelectorAll('button.unfold')]
    .find(button => button.textContent.trim() === 'Acceptance over time').click()"""


@pytest.fixture(scope="module")
def path(pair: DecodingEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's file, whose instrument has the card."""
    script = partial(html.script, {FOLDER.mount: FOLDER.path})
    with mock.patch.object(html, "script", script):
        page = html.page(race_of(pair, drafter="draft", gamma=3, rule="token", max_new_tokens=40))
    written = tmp_path_factory.mktemp("acceptance") / "run.html"
    written.write_text(page, encoding="utf-8")
    return written


@pytest.mark.parametrize("width", [1440, 390])
def test_it_shows_the_text_of_the_part_that_is_chosen(browser: Any, path: Path, width: int) -> None:
    page = Alone(browser, path, viewport={"width": width, "height": 900})
    page.ask("e => e.transport.toEnd()")
    page.ask(OPEN)
    page.painted()
    size = ceil(page.ask("e => Inside.draftLane(e.store).rounds.length") / 24)
    assert page.ask("e => e.shadowRoot.querySelectorAll('.over-time circle').length") > 3
    assert page.text(".over-time q")
    page.ask("e => e.shadowRoot.querySelectorAll('.over-time circle')[3].dispatchEvent(new MouseEvent('click'))")
    page.painted()
    first, last = page.ask(
        "e => { const r = Inside.draftLane(e.store).rounds[3]; return [r.firstToken, r.tokensAfter]; }"
    )
    assert first < last
    assert f"In rounds {3 * size + 1} to {4 * size} " in " ".join(page.text(".over-time").split())
    assert page.ask("e => e.cursor.at.round") == 3 * size
    assert page.ask("() => document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_before_the_run_has_come_far_it_says_what_it_needs(browser: Any, path: Path) -> None:
    page = Alone(browser, path)
    page.ask("e => e.transport.seek(0)")
    page.ask(OPEN)
    page.painted()
    assert "needs 8 rounds" in page.text(".over-time")
    page.close()
