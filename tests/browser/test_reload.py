"""A reload in mid-run: the same tab finds its run, comparison or check again, the copy of a tab does not; what is over
is shown whole."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LONG = "?temperature=1&max_new_tokens=1000"


def reloaded(page: Any) -> None:
    page.assert_quiet()
    page.page.reload()
    page.commit()
    page.errors.clear()  # of the page that was left: Gradio's client reports the connections that its end cuts off


def begun(page: Any) -> str:
    page.ready()
    page.page.click("#ds-run")
    page.until("e => e.store.source === 'live' && e.store.lanes.length === 2 && e.store.lanes[1].rounds.length > 3")
    return str(page.ask("e => e.shownRun"))


@pytest.mark.parametrize("width", [1440, 390])
def test_a_reload_in_mid_run_finds_the_run_again(visit: Any, width: int) -> None:
    page = visit(LONG, viewport={"width": width, "height": 900})
    run = begun(page)
    assert page.ask("e => e.state") == "running"
    reloaded(page)
    page.until(f"e => e.shownRun === '{run}' && e.store.source === 'live'")
    assert page.ask("e => e.store.lanes[1].rounds[0].index") == 0
    page.until("e => ['solo', 'done'].includes(e.state)")
    whole = page.ask("e => e.store.lanes.map((l) => l.tokens.length)")
    assert whole == page.ask("e => e.store.lanes.map((l) => l.end.token_ids.length)")
    assert page.ask("e => e.store.lanes.map((l) => l.end.reason)").count("cancelled") == 0
    page.page.click("#ds-stop")
    page.until("e => e.state === 'done'")
    reloaded(page)
    page.until(f"e => e.shownRun === '{run}' && e.state === 'done'")
    assert page.ask("e => e.store.lanes.map((l) => l.tokens.length)") == whole


def test_the_copy_of_a_tab_does_not_get_the_run(visit: Any) -> None:
    page = visit(LONG)
    run = begun(page)
    with page.context.expect_page() as opened:
        page.page.evaluate("() => { window.open(location.href); }")
    copy = opened.value
    copy.set_default_timeout(90_000)
    copy.wait_for_selector("draftscope-instrument .ds")
    copy.wait_for_function("() => document.querySelector('draftscope-instrument').arrived")
    copy.wait_for_timeout(1500)
    assert copy.evaluate("() => document.querySelector('draftscope-instrument').store.source") == "recorded"
    copy.close()
    page.until(f"e => e.shownRun === '{run}' && ['solo', 'done'].includes(e.state)")
    assert page.ask("e => e.store.lanes.every((l) => l.end && l.end.reason !== 'cancelled')")
    page.page.click("#ds-stop")


def test_a_lesson_stays_in_front_of_the_run_that_is_found(visit: Any) -> None:
    page = visit(LONG)
    run = begun(page)
    page.ask("e => e.lessons.start(1)")
    page.until("e => e.lessons.trace !== ''")
    reloaded(page)
    page.until(f"e => e.lessons.trace !== '' && e.shownRun === '{run}'")
    page.until("e => ['solo', 'done'].includes(e.state) && e.own")
    assert page.ask("e => e.own.lanes.every((l) => l.end && l.end.reason !== 'cancelled')")
    page.page.click("#ds-stop")


TASKS = {
    "compare": ("Compare", "Compare all drafters", "e.compare.answer", "answer.ev.length"),
    "check": (
        "Is it exact?",
        "Check this pair and drafter",
        "e.checked.answer",
        "(answer.ev[0]?.findings.length ?? 0)",
    ),
}


@pytest.mark.parametrize(("kind", "width"), [("compare", 1440), ("check", 390)])
def test_a_comparison_and_a_check_in_mid_run_are_found_again(visit: Any, kind: str, width: int) -> None:
    part, button, answer, count = TASKS[kind]
    page = visit(LONG, viewport={"width": width, "height": 900})
    page.ready()
    page.unfold(part)
    page.element.get_by_role("button", name=button).click()
    page.until(f"e => {{ const answer = {answer}; return answer && {count} > 1; }}")
    before, created = page.ask(f"e => {{ const answer = {answer}; return [{count}, answer.about.created]; }}")
    assert page.ask("e => e.busy")
    reloaded(page)
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
    page.until("e => !e.busy")
