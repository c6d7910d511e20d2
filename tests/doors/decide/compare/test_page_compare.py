"""Compare, and the exactness card's button: asked for, told as they go, cancelled, kept, put into the controls."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.browsers import assert_accessible
from tests.support.visit import EVIL

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SEEN = "e => { const box = e.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight; }"
LATE = 600_000  # a comparison of every drafter on a busy machine


def started(page: Any, button: str) -> None:
    page.page.set_default_timeout(LATE)
    page.element.get_by_role("button", name=button).click()


def test_all_drafters_are_compared_sorted_kept_and_chosen(visit: Any) -> None:
    page = visit("?max_new_tokens=8&temperature=1&rule=typical&prompt=abc")
    page.run()
    sentence = page.text("h2:visible")
    page.unfold("Compare")
    assert page.element.get_by_role("region", name="Compare", exact=True).evaluate(SEEN)
    started(page, "Compare all drafters")
    page.until("e => e.cards.view('compare').running")
    page.painted()
    assert page.element.get_by_role("button", name="Compare all drafters").is_disabled()
    page.until("e => !e.cards.view('compare').running && e.cards.view('compare').done")
    page.painted()
    rows = page.ask("e => Inside.comparedRows(e.cards.view('compare').done.ev)")
    named = {row["drafter"]: row for row in rows}
    assert {"plain", "draft", "sampled-tree", "ngram", "oracle"} <= set(named)
    assert "typed" not in named
    assert all(row["runs"] == 3 for row in rows), rows
    for row in rows:
        assert row["tau"] == pytest.approx(row["tokens"] / row["rounds"])
        assert row["perSecond"] == pytest.approx(row["tokens"] / sorted(row["seconds"])[1])
        assert row["times"] == pytest.approx(row["perSecond"] / named["plain"]["perSecond"])
    assert named["draft"]["c"] == pytest.approx(named["draft"]["draft_ms"] / named["plain"]["round_ms"])
    marks = page.element.locator(
        "tr[data-drafter=oracle] .badge, tr[data-drafter=draft] .badge, tr[data-drafter=ngram] .badge"
    )
    assert sorted({*marks.all_inner_texts()} - {"noise"}) == ["lossy: typical", "synthetic"]
    assert page.text("h2:visible") == sentence  # the run that is shown stays
    for colors_only in (False, True):  # all that another theme changes
        assert_accessible(page.page, colors_only)
        page.page.evaluate("Draftscope.flipTheme()")
        page.painted()

    def order(figure: str) -> list[float]:
        names = page.ask("e => [...e.shadowRoot.querySelectorAll('tr[data-drafter]')].map((r) => r.dataset.drafter)")
        assert named[names[-1]]["synthetic"]  # a chosen acceptance never ranks before a measured one
        return [named[name][figure] for name in names if named[name][figure] is not None and name != "oracle"]

    assert order("times") == sorted(order("times"), reverse=True)
    page.element.get_by_role("button", name="τ", exact=True).click()
    page.painted()
    assert order("tau") == sorted(order("tau"), reverse=True)
    page.page.keyboard.press("Enter")  # the button has kept the focus
    page.painted()
    assert order("tau") == sorted(order("tau"))
    empty_prompt_is_refused(page)
    assert page.element.locator("tr[data-drafter]").count() == len(rows)
    assert page.element.locator("th[aria-sort=ascending]").count() == 1

    page.element.locator("tr[data-drafter=ngram] th button").click()
    page.page.wait_for_function("() => /n-gram/i.test(document.querySelector('#ds-drafter input').value)")
    page.run()
    assert page.ask("e => e.store.lanes[1].start.drafter") == "ngram"
    assert page.element.locator("tr[data-drafter]").count() == len(rows)  # another run leaves it
    page.page.wait_for_timeout(1000)  # whatever the run still streams
    page.reload()
    page.ready()
    page.unfold("Compare")
    assert page.element.locator("tr[data-drafter]").count() == len(rows)
    assert "“abc” · T 1 · seed 0 · at most 8 tokens" in page.text(".compare .note")


def empty_prompt_is_refused(page: Any) -> None:
    prompt = page.page.locator("#ds-prompt textarea")
    prompt.fill("")
    page.element.get_by_role("button", name="Compare all drafters").click()
    page.until("e => e.message.text.textContent.startsWith('The prompt is empty')")
    top = page.element.locator(".message").bounding_box()["y"]
    assert 0 <= top < 1000 and page.page.evaluate("scrollY") > top  # in view, far below the page's beginning
    prompt.fill("abc")


KEPT = """(evil) => {
    const about = { prompt: evil, created: evil, temperature: evil, seed: evil, tokens: evil };
    const marks = { rule: evil, exact: false, synthetic: true };
    const row = { lane: "plain", drafter: evil, title: evil, tokens: 8, rounds: 8, seconds: [1], ...marks };
    localStorage.setItem("draftscope-compare", JSON.stringify({ about, ev: [row] }));
}"""


READ_AGAIN = """e => {
    e.cards.view('compare').done = e.cards.all.find((card) => card.name === 'compare').make({}).done;
    e.request();
    return e.cards.view('compare').done !== null;
}"""


def test_a_cancelled_comparison_leaves_the_last_one(visit: Any) -> None:
    page = visit("?max_new_tokens=16&temperature=1")
    page.run()
    page.page.evaluate(KEPT, EVIL)
    page.unfold("Compare")
    page.ask(READ_AGAIN)
    page.painted()
    assert page.element.locator("tr[data-drafter]").count() == 1
    started(page, "Compare all drafters")
    page.until("e => e.cards.view('compare').running && e.cards.view('compare').answer.ev.length > 1")
    page.element.get_by_role("button", name="Cancel").click()
    page.until("e => !e.cards.view('compare').running")
    page.painted()
    assert page.element.locator("tr[data-drafter]").count() == 1
    assert "cancelled" in page.text(".compare .stated")
    assert page.page.evaluate("window.pwned") is None
    assert page.ask("e => e.shadowRoot.querySelectorAll('img, script').length") == 0
    page.page.evaluate("localStorage.setItem('draftscope-compare', '{\"ev\": 3}')")  # what is odd is passed over
    assert page.ask(READ_AGAIN) is False


def check_is_cancelled(page: Any) -> None:
    page.unfold("Is it exact?")
    assert "Takes a minute" in page.text(".check")
    page.ask("e => e.say('Refused.')")
    started(page, "Check this pair and drafter")
    page.until("e => e.cards.view('check').running && e.cards.view('check').answer.ev.length > 0")
    page.painted()
    assert re.search(r"\d of 9 tests", page.text(".check .stated"))
    assert page.ask("e => e.message.box.hidden")  # what was refused before is over
    page.element.locator(".check").get_by_role("button", name="Cancel").click()
    page.until("e => !e.cards.view('check').running")
    page.painted()
    assert "no conclusion" in page.text(".check .stated")


TOLD = """({ findings, verdict, exact, created = "2026-01-02T03:04:05+00:00", settings = {}, ...other }) => {
    const element = document.querySelector("draftscope-instrument");
    const { start } = Inside.draftLane(element.store);
    const models = start.models.map((model) => model.name);
    const of = { drafter: start.drafter, title: "Draft model, chain", rule: start.rule, models, false_alarm: 1e-6 };
    const when = { created, samples: 2048, tests: findings.length };
    const event = { kind: "checked", exact, findings, verdict, ...of, ...when, ...other };
    const check = { state: "done", place: 0, note: "", about: { settings }, ev: [event] };
    element.feed(JSON.stringify({ seq: "x" + Math.random(), check }));
}"""


def test_a_check_is_asked_for_cancelled_and_kept_for_each_drafter_rule_and_setting(visit: Any) -> None:
    """The shown run's own is told in full, whichever came last; the others of its target in a line each."""
    page = visit("?max_new_tokens=8&temperature=1&rule=lenient&lenience=0.5")
    page.run()
    check_is_cancelled(page)
    distribution = {"name": "joint law", "passed": True, "detail": "told", "samples": 2048, "p_value": 0.25}
    lossy = distribution | {"p_value": None, "total_variation": 0.125, "kl": 0.5}
    lenient = {"verdict": "x", "exact": False, "findings": [lossy], "rule": "lenient"}

    def told(created: str, **what: Any) -> None:
        page.page.evaluate(TOLD, {"created": f"2026-01-0{created}T00:00:00"} | what)
        page.painted()

    names = page.ask("e => e.store.lanes[1].start.models.map((model) => model.name)")
    told("1", **lenient, settings={"lenience": 0.25})
    assert page.element.locator(".check .result-line").count() == 0
    told("2", **lenient, settings={"lenience": 0.5})
    told("3", verdict="x", exact=True, findings=[distribution], rule="token")
    ngram = {"drafter": "ngram", "title": "n-gram", "rule": "", "models": names[:1]}  # it has no model of its own
    told("4", verdict="x", exact=True, findings=[distribution], **ngram)
    told("5", verdict="x", exact=True, findings=[distribution], **ngram)
    told("6", verdict="x", exact=True, findings=[distribution], models=["another target"])
    assert page.text(".check .result-line").startswith("differs: total variation .13, KL 0.50 nats")
    assert "rule lenient, l = 0.5 on " in page.text(".check .sum") and "2026-01-02" in page.text(".check .sum")
    page.element.get_by_text("3 other checks of this target").click()
    assert page.element.locator(".check li").all_inner_texts() == [
        "n-gram: no difference found, 2026-01-05 00:00 UTC",
        "Draft model, chain, rule token: no difference found, 2026-01-03 00:00 UTC",
        "Draft model, chain, rule lenient, l = 0.25: differs, 2026-01-01 00:00 UTC",
    ]
    assert_accessible(page.page)
    told("7", verdict="x", exact=True, findings=[distribution], rule="block")
    assert page.element.locator(".check li:visible").count() == 4  # what was opened stays open
    page.choose("n-gram")
    page.run()
    assert page.text(".check .result-line").startswith("no difference found")
    assert "2026-01-05" in page.text(".check .sum")
    page.page.evaluate("localStorage.setItem('draftscope-checks', '[{\"findings\": 3}]')")  # what is odd is passed over
    assert page.ask("e => e.cards.all.find((card) => card.name === 'check').make({}).done.length") == 0


def test_what_may_be_said_after_a_check_and_no_more(visit: Any) -> None:
    page = visit()
    page.unfold("Is it exact?")
    distribution = {"name": "joint law (token)", "passed": True, "detail": "told", "samples": 2048, "p_value": 0.25}
    page.page.evaluate(TOLD, {"findings": [distribution], "verdict": "no", "exact": True})
    page.painted()
    assert (
        page.text(".check .result-line") == "no difference found: n = 2,048 samples of the joint distribution, p = .25."
    )
    assert "once in 1,000,000" in page.text(".check .sum") and "2026-01-02 03:04 UTC" in page.text(".check .sum")
    lossy = distribution | {"p_value": None, "total_variation": 0.125, "kl": None}
    page.page.evaluate(TOLD, {"findings": [lossy], "verdict": "no", "exact": False})
    page.painted()
    assert page.text(".check .result-line").startswith("differs: total variation .13, KL infinite")
    page.page.evaluate(
        TOLD, {"findings": [distribution | {"passed": False, "name": EVIL}], "verdict": "no", "exact": True}
    )
    page.painted()
    assert page.text(".check .result-line") == f"A difference was found: {EVIL}."
