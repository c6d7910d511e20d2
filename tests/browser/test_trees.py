"""Trees of any size: the whole tree is in view until a reader zooms; then it is dragged, and a map shows where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace import html as player
from tests.support.alone import Alone
from tests.support.browsers import ARTIFACTS
from tests.support.raced import race_of

pytestmark = pytest.mark.browser

ENDS = """e => { const pane = e.round.tree.body.getBoundingClientRect();
    const nodes = [...e.round.tree.body.querySelectorAll('.node')].map((n) => n.getBoundingClientRect());
    return nodes.every((n) => n.left >= pane.left - 1 && n.right <= pane.right + 1
        && n.top >= pane.top - 1 && n.bottom <= pane.bottom + 1); }"""


@pytest.fixture(scope="module")
def page(browser: Any, pair: DecodingEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    """A tree of 36 nodes in every round."""
    path = tmp_path_factory.mktemp("large") / "run.html"
    run = race_of(pair, drafter="sampled-tree", shape=(4, 4, 1))
    path.write_text(player.page(run), encoding="utf-8")
    opened = Alone(browser, path, viewport={"width": 1920, "height": 1080})
    opened.ask("e => e.transport.toEnd()")
    opened.painted()
    yield opened
    opened.close()


@pytest.mark.parametrize("scene", [0, *(pytest.param(more, marks=pytest.mark.slow) for more in (2, 3, 4))])
def test_the_whole_tree_is_in_view(page: Alone, scene: int) -> None:
    page.ask(f"e => e.scenes.to({scene})")
    for index in range(3):
        page.ask(f"e => e.cursor.select(e.store.lanes[1], {index})")
        page.painted()
        assert page.ask(ENDS), (scene, index)
        assert page.element.locator(".tree-svg .node[data-key='-1'], .tree-svg .node[data-key='last']").count() == 2
    page.page.screenshot(path=ARTIFACTS / f"large-tree-{scene}.png")
    page.ask("e => e.scenes.to(0)")
    page.painted()


def test_a_large_tree_is_zoomed_and_dragged_with_a_map(page: Alone) -> None:
    map_ = page.element.locator(".minimap")
    assert not map_.is_visible()
    for _ in range(6):
        page.element.get_by_role("button", name="Zoom in").click()
        page.painted()
    assert map_.is_visible()
    assert map_.locator("rect:not(.frame)").count() == page.element.locator(".tree-svg .node").count()
    assert page.element.locator(".tree-svg .pq.outcome").count() > 0  # enlarged, every judged node says its result
    page.page.screenshot(path=ARTIFACTS / "large-tree-zoomed.png")
    before = page.ask("e => [e.round.tree.body.scrollLeft, e.round.tree.body.scrollTop]")
    at = map_.bounding_box()
    page.page.mouse.click(at["x"] + at["width"] - 4, at["y"] + at["height"] - 4)
    page.painted()
    after = page.ask("e => [e.round.tree.body.scrollLeft, e.round.tree.body.scrollTop]")
    assert after[0] > before[0] and after[1] > before[1]
    page.element.get_by_role("button", name="Fit", exact=True).click()
    page.painted()
    assert not map_.is_visible()
    assert page.ask(ENDS)


def test_long_tables_show_that_they_scroll(page: Alone) -> None:
    page.element.get_by_role("button", name="Table", exact=True).click()
    page.painted()
    table = page.element.locator(".node-table")
    assert table.evaluate("e => e.scrollHeight > e.clientHeight + 40")
    assert table.evaluate("e => getComputedStyle(e).scrollbarWidth") == "auto"  # as wide as the system makes it
    assert "local" in table.evaluate("e => getComputedStyle(e).backgroundAttachment")  # a shade while more follows
    page.element.get_by_role("button", name="Tree", exact=True).click()
