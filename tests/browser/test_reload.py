"""A reload in mid-run: the same tab finds its run, comparison or check again, the copy of a tab does not; what is over
is shown whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.visit import ENDLESS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TOKENS = "e => e.store.lanes.map((l) => l.tokens.length)"


def test_a_tab_finds_its_run_after_a_reload_in_mid_run_and_when_it_is_over(visit: Any) -> None:
    page = visit(ENDLESS)
    page.ready()
    page.page.click("#ds-run")
    page.until("e => e.store.source === 'live' && e.store.lanes.length === 2 && e.store.lanes[1].rounds.length > 3")
    run = page.ask("e => e.shownRun")
    page.reload()
    page.until(f"e => e.shownRun === '{run}' && e.store.source === 'live' && e.state === 'running'")
    assert page.ask("e => e.store.lanes[1].rounds[0].index") == 0
    page.ask("e => { e.was = e.store.lanes[1].rounds.length; }")
    page.until("e => e.store.lanes[1].rounds.length > e.was")
    page.page.evaluate(
        "for (const _ of [1, 2]) document.querySelector('#ds-stop').click()"
    )  # the run, and what follows it
    page.until("e => e.state === 'done' && e.store.lanes.every((l) => l.end)")
    whole = page.ask(TOKENS)
    assert whole == page.ask("e => e.store.lanes.map((l) => l.end.token_ids.length)")
    page.reload()
    page.until(f"e => e.shownRun === '{run}' && e.state === 'done'")
    assert page.ask(TOKENS) == whole


ROUNDS = "e.store.lanes[1].rounds.length"


def test_a_tab_finds_its_run_behind_a_lesson_and_the_copy_of_the_tab_does_not(visit: Any) -> None:
    """A run in steps, which waits meanwhile."""
    page = visit("?temperature=1&max_new_tokens=64")
    page.ready()
    page.page.click("#ds-step")
    page.until(f"e => e.store.source === 'live' && e.state === 'stepping' && {ROUNDS} === 1")
    run = page.ask("e => e.shownRun")
    with page.context.expect_page() as opened:
        page.page.evaluate("() => { window.open(location.href); }")
    copy = opened.value
    copy.set_default_timeout(90_000)
    copy.wait_for_selector("draftscope-instrument .ds")
    copy.wait_for_function("() => document.querySelector('draftscope-instrument').arrived")
    copy.wait_for_timeout(1500)
    assert copy.evaluate("() => document.querySelector('draftscope-instrument').store.lanes.length") == 0
    copy.close()

    page.ask("e => e.cards.view('lessons').start(1)")
    page.until("e => e.cards.view('lessons').trace !== ''")
    page.reload()
    page.until(f"e => e.cards.view('lessons').trace !== '' && e.shownRun === '{run}'")  # the lesson stays in front
    page.ask("e => e.cards.view('lessons').leave()")
    page.until(f"e => e.shownRun === '{run}' && e.store.source === 'live' && e.state === 'stepping' && {ROUNDS} === 1")
    page.door("watch")
    page.page.click("#ds-step")
    page.until(f"e => e.state === 'stepping' && {ROUNDS} === 2")
    page.page.click("#ds-stop")
    page.until("e => e.state === 'done'")


TASKS = {
    "compare": ("Compare", "Compare all drafters", "e.cards.view('compare').answer", "answer.ev.length"),
    "check": (
        "Is it exact?",
        "Check this pair and drafter",
        "e.cards.view('check').answer",
        "(answer.ev[0]?.findings.length ?? 0)",
    ),
}


@pytest.mark.parametrize(("kind", "width"), [("compare", 1440), ("check", 390)])
def test_a_comparison_and_a_check_in_mid_run_are_found_again(visit: Any, kind: str, width: int) -> None:
    part, button, answer, count = TASKS[kind]
    page = visit(viewport={"width": width, "height": 900})
    page.ready()
    page.unfold(part)
    page.element.get_by_role("button", name=button).click()
    page.until(f"e => {{ const answer = {answer}; return answer && {count} > 1; }}")
    before, created = page.ask(f"e => {{ const answer = {answer}; return [{count}, answer.about.created]; }}")
    assert page.ask("e => e.busy")
    page.reload()
    page.until(f"e => {answer} && {answer}.state !== 'done'")
    assert page.ask(f"e => {answer}.about.created") == created
    assert page.ask(f"e => {{ const answer = {answer}; return {count}; }}") >= before
    page.until(f"e => e.message.text.textContent.includes('{part}')")
    page.until(
        f"e => [...e.shadowRoot.querySelectorAll('button')].some((b) => b.textContent === '{button}' && b.disabled)"
    )
    page.ask(f"e => {{ e.was = JSON.stringify({answer}.ev); }}")
    page.until(f"e => JSON.stringify({answer}.ev) !== e.was")
    page.element.get_by_role("button", name="Cancel").locator("visible=true").click()
    page.until(f"e => {answer}.state === 'done'")
    page.until("e => !e.busy && e.message.box.hidden")
