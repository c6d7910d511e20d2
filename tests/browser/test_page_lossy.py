"""Lossy rules on the page: their own forms, marked, no claim of exactness; drafters' notes; synthetic runs told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace import files
from draftscope.verify import rules
from draftscope_app.reports.run_report import decoded, origin
from tests.support.visit import load, record

pytestmark = [pytest.mark.browser, pytest.mark.slow]


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


def test_what_a_drafter_notes_is_shown_after_the_result_and_as_text(lent: Any, tmp_path: Path) -> None:
    page = lent("?max_new_tokens=16")
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
    page.painted()
    assert page.text(".notes") == "ucb chose <b>ngram</b>. Before this round: <b>ngram</b> 3 pulls, 1.23 tokens/s"
    page.element.get_by_role("button", name="Hide the result").click()
    page.painted()
    assert page.element.locator(".notes:visible").count() == 0


def test_reports_mark_what_is_lossy_and_what_is_synthetic(pair: DecodingEngine) -> None:
    def told(drafter: str, **settings: Any) -> tuple[str, bool]:
        run = pair.decode("ab", drafter, max_new_tokens=4, temperature=1.0, **settings)
        return origin(run.start).split(" | ")[0], decoded(run).synthetic

    assert told("oracle") == ("oracle (synthetic)", True)
    assert told("draft", rule="typical") == ("draft (lossy)", False)
    assert told("draft") == ("draft", False)
