"""Two trees side by side: the tree of another lane at the same place of both texts, until they part."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.fork import ForkPoint
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent, Round
from tests.support.browsers import assert_accessible

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SHOWN = """e => ({
    own: e.cursor.round, its: e.beside.at.round, words: e.beside.root.querySelector("[role=status]").textContent,
    title: e.beside.root.querySelector("h3").textContent, drawn: e.beside.tree.root.isConnected })"""


def raced(pair: DecodingEngine) -> list[AnyEvent]:
    """Two drafters that write the same greedy text in other rounds."""
    common: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 24}
    oracle: dict[str, Any] = {"drafter": "oracle", "oracle_alpha": 0.8}
    lanes: dict[str, Any] = {
        "plain": {"drafter": "plain"},
        "one": {**oracle, "gamma": 2},
        "two": {**oracle, "gamma": 5},
    }
    settings = {name: Settings.of(**(common | own)) for name, own in lanes.items()}
    return list(race([pair.start("a", one, run="r", lane=name) for name, one in settings.items()]))


def forked(pair: DecodingEngine) -> list[AnyEvent]:
    """A sampled lane, and a fork of it that was forced to another token after its first two rounds."""
    settings = Settings.of(drafter="draft", gamma=3, temperature=1.0, seed=5, max_new_tokens=24)
    left = list(race([pair.start("a", settings, run="r", lane="speculative")]))
    rounds = [event for event in left if isinstance(event, Round)]
    written = [token for event in rounds[:2] for token in event.emitted]
    other = next(token for token in range(10, 99) if token != rounds[2].emitted[0])
    point = ForkPoint("speculative", 2, (*written, other), forced=True)
    return [*left, *race([pair.start("a", settings, run="r", lane="fork 1", fork_point=point)])]


def test_the_other_lane_shows_the_round_that_holds_the_same_place(played: Any, pair: DecodingEngine) -> None:
    page = played(raced(pair))
    assert not page.element.get_by_role("button", name="Go there").is_visible()
    page.element.locator(".strip-frame").focus()
    page.page.keyboard.press("b")
    lane = page.ask("e => e.store.lanes.findIndex((lane) => lane.name === 'one')")
    apart = set()
    for index in range(page.ask(f"e => e.store.lanes[{lane}].rounds.length")):
        page.ask(f"e => e.cursor.select(e.store.lanes[{lane}], {index})")
        page.painted()
        shown = page.ask(SHOWN)
        assert shown["its"]["firstToken"] <= shown["own"]["firstToken"] < shown["its"]["tokensAfter"] and shown["drawn"]
        assert shown["words"] == f"the same place of the text, token {shown['own']['firstToken'] + 1}"
        apart.add(index - shown["its"]["index"])
    assert len(apart) > 1  # rounds of other lengths, so the number of the round says nothing
    assert "γ 5 · round" in shown["title"]
    nodes = page.element.locator(".other-lane [data-key]")
    nodes.last.click()
    page.painted()
    assert nodes.last.get_attribute("aria-pressed") == "true"
    page.element.get_by_role("button", name="Go there").click()
    page.painted()
    assert page.ask("e => [e.cursor.at.lane.name, e.beside.at.lane.name]") == ["two", "one"]
    page.page.keyboard.press("b")
    page.painted()
    assert not page.element.locator(".other-lane").is_visible()


def test_it_says_where_a_fork_and_what_it_left_have_parted(played: Any, pair: DecodingEngine) -> None:
    page = played(forked(pair))
    page.element.get_by_role("button", name="Other lane beside").click()

    def at(lane: int, index: int) -> Any:
        page.ask(f"e => e.cursor.select(e.store.lanes[{lane}], {index})")
        page.painted()
        return page.ask(SHOWN)

    given = page.ask("e => e.store.lanes[1].start.fork.token_ids.length")
    before, after = at(0, 1), at(0, 3)
    assert before["words"] == f"this place is before token {given + 1}, its first" and not before["drawn"]
    assert after["words"] == f"the texts parted before token {given + 1}, its first" and not after["drawn"]
    other = at(1, 1)
    assert other["words"] == f"the texts part here, at token {given}; after it no place is the same"
    assert other["its"]["index"] == 2 and other["drawn"]


@pytest.mark.parametrize("width", [390, 1440])
def test_the_trees_stand_beside_each_other_or_below(played: Any, pair: DecodingEngine, width: int) -> None:
    page = played(raced(pair), context={"viewport": {"width": width, "height": 900}, "bypass_csp": True})
    page.element.get_by_role("button", name="Other lane beside").click()
    page.painted()
    own, its = (page.element.locator(f".run {card}").bounding_box() for card in (".tree", ".other-lane"))
    if width < 700:
        assert its["y"] >= own["y"] + own["height"]
    else:
        assert its["x"] >= own["x"] + own["width"] and abs(its["y"] - own["y"]) < 1
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert_accessible(page.page)
