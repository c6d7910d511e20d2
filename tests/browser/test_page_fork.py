"""Fork here: a live run is left at a decision, with a new uniform or a forced token, and the fork is a lane like
others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftscope.trace import files
from tests.browser.test_page import ALL_AT_ONCE, ONE_BY_ONE
from tests.support.browsers import assert_accessible
from tests.support.visit import load, record

pytestmark = [pytest.mark.browser, pytest.mark.slow]

AT_A_CONTEST = """e => {
    const lane = e.store.lanes[1];
    const round = lane.rounds.find((r) => r.index > 0 && r.decisions.length && !r.cut);
    e.cursor.select(lane, round.index);
    return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
        done([round.index, e.cursor.at.slot]))));
}"""


def fork(page: Any, button: str, lanes: int) -> dict[str, Any]:
    page.element.get_by_role("button", name=button, exact=True).click()
    page.until(f"e => e.store.lanes.length === {lanes} && e.store.lanes.every((l) => l.end) && e.state === 'done'")
    page.painted()
    start: dict[str, Any] = page.ask(f"e => e.store.lanes[{lanes - 1}].start")
    return start


def assert_replays(visit: Any, page: Any, folder: Path, sentence: str) -> None:
    saved = record(page, folder)
    read = files.read(saved)
    assert not read.warning
    assert [e.lane for e in read.events if e.kind == "run_start"] == ["plain", "speculative", "fork 1", "fork 2"]
    texts = page.ask("e => e.store.lanes.map((l) => l.tokens.map((t) => t.id))")
    other = visit()
    other.ready()
    load(other, saved)
    other.until("e => e.store.source === 'recorded' && e.store.lanes.length === 4")
    other.painted()
    assert other.ask("e => e.store.lanes.map((l) => l.tokens.map((t) => t.id))") == texts
    assert other.text("h2:visible") == sentence
    assert "press Run" in other.text(".fork .note")


def test_a_run_is_forked_with_a_forced_token_and_with_a_new_uniform_and_replays(
    lent: Any, visit: Any, tmp_path: Path
) -> None:
    page = lent("?temperature=1&max_new_tokens=24&rule=token&seed=3")
    page.run()
    sentence = page.text("h2:visible")
    page.element.get_by_text("The rounds as a table").click()
    assert "fork" not in page.element.locator(".strip .note").text_content()
    index, _ = page.ask(AT_A_CONTEST)
    before = page.ask(
        f"e => e.store.lanes[1].tokens.slice(0, e.store.lanes[1].rounds[{index}].firstToken).map((t) => t.id)"
    )
    path = page.ask("""e => { const r = e.cursor.round, ids = [];
        for (let s = e.cursor.at.slot; s !== -1; s = r.nodes.find((n) => n.id === s).parent)
            ids.unshift(r.nodes.find((n) => n.id === s).token);
        return ids; }""")
    choice = page.element.get_by_label("Token to force")
    token = int(choice.input_value())
    choice.evaluate("e => { e.options[0].text = 'extraordinary…  p .301'; }")
    places = [page.element.get_by_role("button", name=name).bounding_box() for name in ("New seed", "Force this token")]
    assert len({(box["y"], box["height"]) for box in places}) == 1  # a row, and words on one line
    start = fork(page, "Force this token", 3)
    assert start["fork"]["token_ids"] == [*before, *path, token]
    assert start["fork"]["forced"] is True
    assert (start["fork"]["lane"], start["fork"]["round"]) == ("speculative", index)
    assert page.element.locator(".badge.caveat:visible").all_inner_texts() == ["fork"]
    pane = page.element.locator(".lane").nth(2)
    assert "forked from Draft model, chain · γ 4 in round" in pane.locator(".foot").inner_text()
    assert "its clock starts at 0 at the fork" in pane.locator(".foot").inner_text()
    assert page.element.locator(".strip .note").text_content().endswith("a fork's clock starts at 0")
    shown = pane.locator(".given").evaluate("e => e.textContent") + pane.locator(".forced").evaluate(
        "e => e.textContent"
    )
    assert shown == page.ask("e => e.store.lanes[2].given.join('')")
    assert page.text("h2:visible") == sentence

    for colors_only in (False, True):  # all that another theme changes
        assert_accessible(page.page, colors_only)
        page.page.evaluate("Draftscope.flipTheme()")
        page.painted()

    page.ask(AT_A_CONTEST)
    again = fork(page, "New seed", 4)
    assert again["fork"]["forced"] is False
    assert again["seed"] != 3
    page.painted()
    assert page.element.get_by_role("button", name="Force this token").is_disabled()
    assert "press Run to start again" in page.text(".fork .note")

    assert_replays(visit, page, tmp_path, sentence)
    page.run()  # a new run begins anew
    assert page.ask("e => e.store.lanes.length") == 2


def test_a_fork_whose_first_word_is_lost_is_asked_for_again(lent: Any) -> None:
    page = lent("?temperature=1&max_new_tokens=24&rule=token")
    page.run()
    page.ask(ONE_BY_ONE)
    page.ask("e => { e.lost = e.counted = 0; e.loses = (d) => d.ev.length > 0 && !e.lost; }")
    page.ask(AT_A_CONTEST)
    fork(page, "New seed", 3)
    assert page.ask("e => e.lost") == 1
    assert page.ask("e => e.store.lanes[1].tokens.length") == 24
    page.ask(ALL_AT_ONCE)


def test_greedy_forks_by_a_token_only_a_hidden_result_offers_none_and_a_refusal_is_one_sentence(lent: Any) -> None:
    page = lent("?max_new_tokens=16")
    page.until("e => /press Run/.test(e.shadowRoot.querySelector('.fork .note').textContent)")  # of a recorded run
    page.run()
    page.ask(AT_A_CONTEST)
    assert page.element.get_by_role("button", name="New seed").is_disabled()
    assert not page.element.get_by_role("button", name="Force this token").is_disabled()
    page.element.get_by_role("button", name="Hide the result").click()
    page.painted()
    assert page.element.locator(".fork:visible").count() == 0
    page.page.evaluate("Draftscope.ask('fork', { lane: 'nobody', round: 0, slot: -1, token: null })")
    page.until("e => /no lane 'nobody'/.test(e.message.text.textContent)")
    page.page.evaluate("Draftscope.ask('fork', { lane: 'plain', round: 15, slot: -1, token: 70 })")
    page.until("e => /Nothing is left/.test(e.message.text.textContent)")
    assert page.ask("e => e.store.lanes.length") == 2
