"""A picture of every view in every size, and in both themes, to look at; nothing reaches beyond the right edge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftscope.base.assets import assets
from draftscope.trace import files
from draftscope.trace import html as player
from tests.support.alone import Alone
from tests.support.browsers import ARTIFACTS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

VIEWS = [(1440, 900, "light"), (1920, 1080, "dark"), (390, 844, "light")]
UNFOLD = """e => { for (const b of e.shadowRoot.querySelectorAll('.unfold'))
    if (!b.hidden && b.getAttribute('aria-expanded') === 'false') b.click(); }"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shipped") / "run.html"
    events = files.read(assets() / "traces" / "first.jsonl.gz").events
    path.write_text(player.page(events), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "height", "theme"), VIEWS)
def test_every_view_is_pictured(browser: Any, run: Path, width: int, height: int, theme: str) -> None:
    page = Alone(browser, run, viewport={"width": width, "height": height}, color_scheme=theme)
    folder = ARTIFACTS / "views"
    folder.mkdir(parents=True, exist_ok=True)

    def picture(view: str, whole: bool = False) -> None:
        page.painted()
        page.page.screenshot(path=folder / f"{view}-{width}-{theme}.png", full_page=whole)
        assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view

    page.ask("e => e.transport.toEnd()")
    picture("page", whole=True)
    for face in ("Mask", "Table"):
        page.element.get_by_role("button", name=face, exact=True).click()
        picture(face.lower())
    page.element.get_by_role("button", name="Tree", exact=True).click()
    page.ask(UNFOLD)
    picture("unfolded", whole=True)
    for number in range(1, 7):
        page.ask(f"e => e.scenes.to({number})")
        picture(f"scene-{number}")
    page.close()
