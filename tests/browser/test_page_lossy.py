"""Lossy rules on the page: their own forms, marked, no claim of exactness; drafters' notes; synthetic runs told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.lab import Lab
from draftscope.trace import files
from draftscope.verify import rules
from draftscope_app.reports.lanes import lanes, origin
from tests.support.visit import load, record

pytestmark = pytest.mark.browser


def run_with(visit: Any, rule: str) -> Any:
    page = visit(f"?temperature=1&max_new_tokens=48&rule={rule}&seed=4&lenience=0.05&agreement=40")
    page.run()
    page.ask("e => { const l = e.store.lanes[1]; e.cursor.select(l, l.rounds.findIndex((r) => r.decisions.length)); }")
    page.page.wait_for_timeout(200)
    return page


@pytest.mark.parametrize(
    ("rule", "uniforms", "compared"),
    [("lenient", 1, "min(1, p / (l q))"), ("typical", 0, "the threshold"), ("top-k", 0, "the k-th most probable")],
)
def test_each_lossy_rule_says_what_is_compared_with_what(visit: Any, rule: str, uniforms: int, compared: str) -> None:
    """And before the result is shown nothing of it."""
    page = run_with(visit, rule)
    assert page.text(".decision .badge") == "lossy"
    assert "lossy" in page.text(".decision .note")
    assert compared in page.text(".uniform-row .words")
    assert page.element.locator(".decision .uniform").count() == uniforms
    assert f"lossy: {rule}" in page.element.locator(".badge.caveat:visible").all_inner_texts()
    assert "does not follow the target's distribution" in page.text(".basis")
    page.unfold("Is it exact?")
    told = page.text("[aria-label='Is it exact?']")
    assert "Proved" not in told
    assert "lossy by design" in told
    checks = page.ask("e => Inside.audit(e.store.lanes[1])")
    assert all(line["good"] == line["of"] > 0 for line in checks), checks

    page.element.get_by_role("button", name="Hide the result").click()
    page.page.wait_for_timeout(200)
    assert page.element.locator(".uniform-row .result").first.inner_text() == "?"
    assert page.element.locator(".decision .mass, .decision .uniform").count() == 0
    assert "rejected" not in page.text(".decision-body")


@pytest.mark.parametrize("rule", ["lenient", "typical", "top-k"])
def test_at_temperature_zero_no_rule_is_called_lossy(visit: Any, rule: str) -> None:
    page = visit(f"?max_new_tokens=24&rule={rule}&lenience=0.05&agreement=40")
    page.run()
    assert "24 of 24" in page.figure("distribution")
    page.ask("e => { const l = e.store.lanes[1]; e.cursor.select(l, l.rounds.findIndex((r) => r.decisions.length)); }")
    page.page.wait_for_timeout(200)
    assert page.text(".decision .note").startswith("greedy")
    assert page.element.locator(".badge.caveat:visible").count() == 0
    assert "lossy" not in page.element.inner_text()


ACCEPTED = """([contest, lenience]) => {
    const lumped = Inside.lump(contest.distributions[0]);
    return Inside.lossyAccept(contest, lumped, lenience);
}"""


def decision_of(rule: str, p: list[float], q: list[float], threshold: float) -> dict[str, Any]:
    distributions = {
        "ids": list(range(len(p))),
        "raw": list("abcd"),
        "p": p,
        "q": q,
        "rest_p": 0,
        "rest_q": 0,
        "rest_min": 0,
    }
    return {"rule": rule, "distributions": [distributions], "children": [{"node": 0, "threshold": threshold}]}


def test_the_lossy_rules_of_the_page_are_those_of_the_engine(functions: Any) -> None:
    p, q = [0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]
    wanted = {
        "lenient": [float(rules.lenient_probability(p, q, x, 0.4)) for x in range(4)],
        "typical": [float(rules.typical_accepts(p, x)) for x in range(4)],
        "top-k": [float(rules.top_k_accepts(p, x, 2)) for x in range(4)],
    }
    thresholds = {"lenient": 1.0, "typical": rules.typical_threshold(p), "top-k": sorted(p)[-2]}
    for rule, accepts in wanted.items():
        found = functions.evaluate(ACCEPTED, [decision_of(rule, p, q, thresholds[rule]), 0.4])
        assert found[:4] == pytest.approx(accepts), rule
    unknown = decision_of("typical", p, q, 0.01) | {}
    unknown["distributions"][0] |= {"p": [0.4, 0.2, 0.1, 0.1], "rest_p": 0.2}
    assert functions.evaluate(ACCEPTED, [unknown, 0.4]) is None


def test_draws_by_a_lossy_rule_miss_p_where_the_token_rule_settles(visit: Any) -> None:
    page = run_with(visit, "lenient")
    page.unfold("Resample")
    for name, words in (("the token rule", "The samples match p"), ("this rule, lossy", "The samples miss p")):
        page.element.get_by_role("button", name=name).click()
        page.until("e => e.shadowRoot.querySelector('.draws').dataset.n === '10000'")
        assert page.text(".draws .sum").startswith(words)


def test_what_a_drafter_notes_is_shown_after_the_result_and_as_text(visit: Any, tmp_path: Path) -> None:
    page = visit("?max_new_tokens=16")
    page.run()
    arm = {"name": "<b>ngram</b>", "pulls": 3, "tokens_per_s": 1.23456}
    policy = {"kind": "policy", "policy": "ucb", "chosen": 0, "arms": [arm]}
    noted = tmp_path / "noted.jsonl"
    with noted.open("w") as file:
        for event in files.read(record(page, tmp_path)).events:
            data = json.loads(files.line(event))
            if data["kind"] == "round" and data["lane"] != "plain":
                data |= {"annotations": [policy], "notes": {}}  # as rounds of this version once were written
            file.write(json.dumps(data) + "\n")
    assert page.element.locator(".notes:visible").count() == 0
    load(page, noted)
    page.until("e => e.store.source === 'recorded'")
    page.page.wait_for_timeout(300)
    assert page.text(".notes") == "ucb chose <b>ngram</b>. Before this round: <b>ngram</b> 3 pulls, 1.23 tokens/s"
    page.element.get_by_role("button", name="Hide the result").click()
    page.page.wait_for_timeout(200)
    assert page.element.locator(".notes:visible").count() == 0


def test_a_synthetic_run_is_told_on_the_page(visit: Any) -> None:
    page = visit("?drafter=oracle&max_new_tokens=16")
    page.run()
    assert page.element.locator(".badge.caveat:visible").all_inner_texts() == ["synthetic: chosen acceptance"]
    assert page.text(".basis").startswith("synthetic")


def test_reports_mark_what_is_lossy_and_what_is_synthetic(pair: Lab) -> None:
    def told(drafter: str, **settings: Any) -> tuple[str, bool]:
        (lane,) = lanes(pair.decode("ab", drafter, max_new_tokens=4, temperature=1.0, **settings).events)
        return origin(lane.start).split(" | ")[0], lane.decoded().synthetic

    assert told("oracle") == ("oracle (synthetic)", True)
    assert told("draft", rule="typical") == ("draft (lossy)", False)
    assert told("draft") == ("draft", False)
