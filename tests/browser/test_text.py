"""The text that was written: whole, the same in both lanes, its tokens by their fate, and to take away."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from tests.support.raced import race_of

pytestmark = pytest.mark.browser
GREEDY = {"drafter": "draft", "gamma": 3, "temperature": 0.0, "max_new_tokens": 40}
BREAKS = """e => { for (const { spans } of e.lanes) spans.forEach((span, i) => { // a text with lines, some indented
        span.textContent = i % 7 === 6 ? "\\n    " : ` word${i}`; });
    return e.lanes.map(({ pane, spans }) => ({
        box: [pane.clientWidth, pane.clientHeight, pane.getBoundingClientRect().top],
        size: parseFloat(getComputedStyle(pane).fontSize), scrolls: pane.scrollHeight > pane.clientHeight,
        tops: spans.map((span) => span.getBoundingClientRect().top - spans[0].getBoundingClientRect().top) })); }"""
IN_VIEW = """(e, [lane, i]) => { const { pane, spans } = e.lanes[lane];
    const [box, at] = [pane, spans[i]].map((each) => each.getBoundingClientRect());
    return at.top >= box.top - 2 && at.bottom <= box.bottom + 4; }"""


def test_both_lanes_are_of_one_size_and_break_their_lines_alike(played: Any) -> None:
    """Plain decoding's pane was one line, its line breaks thrown away."""
    page = played(**GREEDY)
    plain, drafted = page.ask(BREAKS)
    assert plain == drafted
    assert plain["size"] >= 14 and plain["scrolls"]
    assert len(set(plain["tops"])) > 5


def test_the_lanes_say_how_far_their_texts_are_equal(played: Any, pair: DecodingEngine) -> None:
    page = played(**GREEDY)
    badges = page.element.locator(".badge.equal:visible")
    tokens = page.ask("e => e.store.lanes[1].tokens.length")
    assert badges.all_inner_texts() == [f"equal: {tokens} of {tokens}"]
    page.ask("e => e.transport.scrub(e.transport.end / 2)")
    page.painted()
    shown = min(page.ask("e => e.lanes.map((lane) => lane.shown)"))
    assert 0 < shown < tokens
    assert badges.all_inner_texts() == [f"equal so far: {shown} of {shown}"]
    sampled = played(race_of(pair, **GREEDY | {"temperature": 1.0}))
    assert sampled.element.locator(".badge.equal:visible").count() == 0


def test_where_they_part_nothing_is_called_equal(played: Any) -> None:
    page = played(**GREEDY)
    page.ask("e => { for (const token of e.store.lanes[0].tokens.slice(5)) token.id += 1; e.request(); }")
    page.painted()
    assert page.element.locator(".badge.equal:visible").count() == 0
    assert page.text(".badge.parting:visible").startswith("differs from token 6")


def test_every_lane_copies_its_text(played: Any) -> None:
    page = played(**GREEDY)
    page.page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    for i, lane in enumerate(("Plain decoding", "Draft model")):
        page.element.get_by_role("button", name=f"Copy the text of {lane}").click()
        page.element.get_by_role("button", name=f"Copied the text of {lane}").wait_for()
        assert page.page.evaluate("window.copied") == page.ask(f"e => e.store.lanes[{i}].end.text")
    page.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('closed')); }")
    page.element.get_by_role("button", name="Copy the text of Plain decoding").click()
    page.until("e => /cannot use the clipboard; mark the text/.test(e.message.text.textContent)")


def test_the_lines_under_the_text_are_explained_where_it_stands(played: Any) -> None:
    page = played(drafter="sampled-tree", shape=(3, 2), max_new_tokens=40)
    assert page.text(".text-legend").split() == ["✓", "accepted", "↻", "correction", "+", "bonus"]
    drawn = page.ask("""e => ["accepted", "correction", "bonus"].map((fate) =>
        [`.text-legend .${fate}:not(.glyph)`, `.pane .${fate}`].map((place) => e.shadowRoot.querySelector(place))
            .map((at) => at && getComputedStyle(at).borderBottom))""")
    seen = [(key, line) for key, line in drawn if line is not None]
    assert len(seen) > 1 and all(key == line for key, line in seen)


def test_a_round_that_is_looked_at_comes_into_view_in_both_texts(played: Any) -> None:
    page = played(**GREEDY)
    page.ask(BREAKS)
    page.ask("e => e.cursor.select(e.store.lanes[1], 0)")
    page.painted()
    assert page.ask(IN_VIEW, [1, 0])
    page.painted()
    assert page.ask(IN_VIEW, [0, 0]), "the other text goes along"
    last = page.ask("e => e.store.lanes[1].rounds.length - 1")
    page.ask("(e, last) => e.cursor.select(e.store.lanes[1], last)", last)
    page.painted()
    first = page.ask("(e, last) => e.store.lanes[1].rounds[last].firstToken", last)
    assert page.ask(IN_VIEW, [1, first])
    page.element.locator(f".lane:nth-child(2) .t[data-i='{first - 1}']").click()
    page.painted()
    assert page.ask("e => e.cursor.at.round") == last - 1
    assert page.element.locator(".lane:nth-child(2) .t.sel").count() > 0


@pytest.mark.parametrize(("first", "direction"), [("שלום", "rtl"), ("hello", "ltr")])
def test_every_line_has_the_direction_of_its_script(played: Any, first: str, direction: str) -> None:
    page = played(**GREEDY)
    assert page.element.locator(".pane").first.get_attribute("dir") == "auto"
    page.ask("(e, first) => { e.lanes[0].pane.textContent = `${first} abc.`; }", first)
    edge = page.ask("""e => { const pane = e.lanes[0].pane, range = document.createRange();
        range.selectNodeContents(pane);
        const [text, box] = [range.getBoundingClientRect(), pane.getBoundingClientRect()];
        return text.left - box.left < box.right - text.right; }""")
    assert edge is (direction == "ltr")


@pytest.mark.parametrize(
    "own",
    [
        {"drafter": "draft", "temperature": 0.0},
        {"drafter": "topk-tree", "shape": (3, 2)},
        {"drafter": "draft", "rule": "token"},
        {"drafter": "draft", "rule": "block"},
        {"drafter": "draft", "rule": "lenient", "lenience": 0.05},
    ],
)
def test_a_token_that_a_sentence_quotes_is_set_apart(played: Any, own: dict[str, Any]) -> None:
    """It read "token is ):. Drafted was ,: rejected."."""
    page = played(**own)
    page.ask("""e => { const lane = e.store.lanes[1];
        const lost = lane.rounds.find((round) => round.index && round.last.kind === "correction");
        e.cursor.select(lane, lost.index);
        e.cursor.open(lost.last.slot, null); }""")
    page.painted()
    wanted = page.ask("e => Inside.visible(e.cursor.round.last.raw)")
    assert wanted in page.element.locator(".decision .outcome code").all_inner_texts()
    assert page.element.locator(".decision h3 code").count() == 1
