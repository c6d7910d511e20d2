"""A block's decision says what its own numbers mean, and the same as the tree."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace import html as player
from draftscope.trace.events import Round
from tests.support.alone import Alone
from tests.support.raced import race_of

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_blocks_numbers_are_explained_and_agree_with_the_tree(
    browser: Any, pair: DecodingEngine, tmp_path: Any
) -> None:
    run = race_of(pair, drafter="draft", gamma=4, rule="block", max_new_tokens=96)
    (tmp_path / "run.html").write_text(player.page(run), encoding="utf-8")
    rounds = [event for event in run if isinstance(event, Round) and event.lane == "speculative" and not event.cut]
    rescued = [
        i
        for i, one in enumerate(rounds)
        for decision in one.decisions
        for child in decision.children
        if not child.passed and next(n for n in one.nodes if n.id == child.node).fate == "accepted"
    ]
    page = Alone(browser, tmp_path / "run.html")
    for index in dict.fromkeys([*rescued[:2], 0]):
        one = rounds[index]
        page.ask(f"e => e.cursor.select(e.store.lanes[1], {index})")
        page.painted()
        lines = page.element.locator(".decision .uniform-row")
        children = [child for decision in one.decisions for child in decision.children]
        assert lines.count() == len(children)
        for i, child in enumerate(children):
            fate = next(node.fate for node in one.nodes if node.id == child.node)
            told = lines.nth(i).text_content()
            assert lines.nth(i).get_attribute("title") in told  # of several lines only the chosen one has it in view
            assert ("✓" in told) is (fate == "accepted")  # the tree's fate, not that of this u alone
            assert "w = min(1, " in told
            assert ("may end here" in told) is child.passed
            assert "may not end here" in told or child.passed
        assert "The last position with u < h is the end" in page.text(".decision-body")
        legend = page.text(".tree .legend")
        assert "the accepted block may end here" in legend
    assert rescued, "no position was accepted by a later one: choose another prompt"
    page.close()
