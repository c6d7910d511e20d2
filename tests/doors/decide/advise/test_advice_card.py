"""Measuring on Decide without a browser: what it asks for, how far it says it is, and what its answer shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from draftscope.advise.question import Asked, Objective, Question
from draftscope.advise.report import Advised
from draftscope.base.errors import DraftscopeError
from draftscope.base.progress import Progress
from draftscope.base.steps import said
from draftscope.decode.engine import DecodingEngine
from draftscope_app.doors.decide.advise import advice_html
from draftscope_app.doors.decide.advise.job import AdviseJob
from draftscope_app.doors.decide.advise.page import Page, job, offered
from draftscope_app.doors.decide.advise.report import page
from draftscope_app.engine.answers import Answer, Part
from draftscope_app.engine.jobs import DrafterChoice, EngineStatus, Update
from draftscope_app.engine.work import Work, steps_of
from draftscope_app.page import bundle, notes

EVIL = "<script>alert('x')</script>"
KNOWN = (
    DrafterChoice("plain", "Plain", True, True, "", ()),
    DrafterChoice("draft", "Draft model, chain", True, True, "", ("gamma",)),
    DrafterChoice("typed", "A person", True, True, "", ("typed",)),
    DrafterChoice("eagle", "EAGLE", True, False, "no head", ("gamma",)),
)
VALUES: dict[str, Any] = {
    "own": "", "kind": "code", "drafters": ["draft"], "objective": "latency", "price_per_hour": 1.0,
    "temperature": 0.0, "length": 96, "concurrency": 4, "seconds": 30,
}  # fmt: skip


def asked(**changes: Any) -> Asked:
    return job(VALUES | changes, KNOWN).wish


def advice(seconds: float = 1.0) -> AdviseJob:
    prompts = {"letters": ("abcabc", "the sea and the", "0123")}
    found = Asked(Question(length=12, temperature=1.0, seconds=seconds), prompts, ("ngram",))
    return AdviseJob(id="r", prompt="abc", wish=found)


@pytest.fixture(scope="module")
def told(pair: DecodingEngine) -> list[Any]:
    return list(said(steps_of(pair, advice())))


@pytest.fixture(scope="module")
def events(told: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(event.model_dump_json(exclude_none=True)) for event in told if isinstance(event, Advised)]


# What is asked.


def test_a_form_becomes_a_question() -> None:
    found = asked()
    assert found.question == Question(length=96, concurrency=4, seconds=30) and found.drafters == ("draft",)
    assert list(found.prompts) == ["code"] and len(asked(kind="all").prompts) > 1
    assert asked(objective="cost", price_per_hour=2.5).question.price_per_hour == 2.5
    assert asked().question.price_per_hour is None


def test_own_prompts_are_lines_and_count_once() -> None:
    assert asked(own=" one \n\ntwo\none\n").prompts == {"your prompts": ["one", "two"]}


def test_a_chat_model_is_asked_questions() -> None:
    for kind in ("code", "all"):
        found = job(VALUES | {"kind": kind}, KNOWN, chat=True).wish
        assert found.prompts["code"] == bundle.presets(chat=True)["code"]
        assert asked(kind=kind).prompts["code"] == bundle.presets()["code"] != found.prompts["code"]


def test_drafters_that_cannot_be_compared_are_not_offered() -> None:
    assert offered(KNOWN) == [("Draft model, chain", "draft")]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"length": 0}, "max_new_tokens = 0"),
        ({"length": 1.5}, "a whole number"),
        ({"length": None}, "is not a number"),
        ({"concurrency": 100}, "concurrency = 100"),
        ({"temperature": -1}, "temperature = -1"),
        ({"temperature": float("nan")}, "not a number"),
        ({"seconds": 3600}, "choose 5 to 120"),
        ({"kind": "nothing"}, "no kind of text"),
        ({"drafters": ["eagle"]}, "cannot be compared"),
        ({"objective": "luck"}, "objective = luck"),
        ({"objective": "cost", "price_per_hour": 0}, "price_per_hour = 0"),
        ({"own": ["a"]}, "is not a text"),
        ({"own": "\n".join(map(str, range(99)))}, "99 prompts"),
    ],
)
def test_a_wrong_value_is_one_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DraftscopeError, match=words):
        asked(**changes)


# What is told.


def test_every_stage_is_told_and_the_report_comes_last(told: list[Any], events: list[dict[str, Any]]) -> None:
    stages = dict.fromkeys(now.doing for now in told if isinstance(now, Progress))
    assert list(stages)[-2:] == ["acceptance on these prompts", "whole runs, in turn with plain decoding"]
    assert [bool(event.get("report")) for event in events] == [False] * (len(events) - 1) + [True]
    first = advice_html.partial([{"so_far": "ngram about 1.20x by what was accepted"}])
    assert "ngram about 1.20x by what was accepted; nothing is run in turn" in first and "ds-verdict" not in first


def test_the_card_says_how_far_it_is_and_shows_every_look_at_the_runs() -> None:
    """It showed the latest interval alone: of an advice's events only the last one was kept."""
    answer = Answer(SimpleNamespace(status=EngineStatus("ready")), advice())  # type: ignore[arg-type]
    card: Any = Page(SimpleNamespace())  # type: ignore[arg-type]

    def shown(place: int = 0) -> tuple[str, str]:
        part = Part(0, [], answer.standing, place, answer.progress, None)
        progress, _, _, _, verdict, *_ = card.show(answer, part)
        return progress, verdict

    assert "In the queue, 2 ahead of you." in shown(2)[0]
    loading: Any = SimpleNamespace(status=EngineStatus("loading"))
    assert Part(0, [], Answer(loading, advice()).standing, 0, None, None).waits == "waiting for the engine"
    answer.take(Update("r", state="running"))
    answer.take(Update("r", progress=Progress("acceptance on <these> prompts", 0.25, 30.0)))
    assert "Measuring acceptance on &lt;these&gt; prompts, 25%, about 30 s left." in shown()[0]
    assert 'value="0.250"' in shown()[0] and "ds-closing" not in shown()[1]
    for by in (0.3, 0.1):
        ratio = {"median": 1.2, "low": 1.2 - by, "high": 1.2 + by}
        answer.take(Update("r", line=Advised(so_far="1.20x so far", ratio=ratio).model_dump_json(exclude_none=True)))
    assert re.findall(r"width: ([\d.]+)%", shown()[1]) == ["100.0", "33.3"]
    assert "<progress aria" in shown()[0]  # until it is said again how far it is


def test_the_interval_closes_as_runs_come_in(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def advising(*_: Any, **__: Any) -> Iterator[Advised]:
        ratio = {"median": 1.2, "low": 1.1, "high": 1.3}
        yield Advised(so_far="1.20x so far", ratio=ratio)

    monkeypatch.setattr("draftscope.advise.advise.advising", advising)
    told = next(iter(said(steps_of(pair, advice()))))
    assert told.ratio == {"median": 1.2, "low": 1.1, "high": 1.3}
    wide, narrow = ({"ratio": {"median": 1.2, "low": 1.2 - by, "high": 1.2 + by}} for by in (0.3, 0.1))
    shown = advice_html.partial([{}, wide, narrow])
    assert re.findall(r"width: ([\d.]+)%", shown) == ["100.0", "33.3"] and "latest 1.10 to 1.30" in shown
    assert 'left: 16.7%">1, plain<' in shown and "ds-closing" not in advice_html.partial([{}])


@pytest.mark.parametrize(
    ("so_far", "words"),
    [
        ("turn it on", "Turn it on, so far: 1.20"),
        ("leave it off", "Leave it off, so far"),
        (None, "cannot be told yet"),
    ],
)
def test_the_verdict_so_far_stands_there_while_it_is_measured(so_far: str | None, words: str) -> None:
    ratio = {"median": 1.2, "low": 1.1, "high": 1.3}
    shown = advice_html.partial(
        [{"so_far": "ngram 1.20x so far", "ratio": ratio, "verdict": so_far}, {"so_far": "later"}]
    )
    assert words in shown and "[1.10, 1.30]" in shown and "Provisional" in shown


def test_costs_that_are_not_known_are_offered_with_the_time_that_they_take_once(events: list[dict[str, Any]]) -> None:
    known = {**events[-1]["report"], "costs_s": None}
    assert not advice_html.costs_button(known) and "not measured yet" not in advice_html.measured(known)
    for seconds, words in ((3.0, "5 s"), (41.0, "45 s"), (61.0, "2 min")):
        unknown = {**known, "costs_s": seconds}
        assert advice_html.costs_button(unknown) == f"Where it changes, about {words} once for this machine"
        assert "not measured yet" in advice_html.measured(unknown)


def test_it_lets_others_go_first_and_ends_when_it_is_stopped(pair: DecodingEngine) -> None:
    calls = 0

    def look() -> None:
        nonlocal calls
        calls += 1
        work.stopping = calls > 20

    work = Work(pair, advice(60.0), look)
    told = list(iter(work.advance, Update("r", state="done")))
    assert calls == 21 and not work.job.is_run
    assert any(told) and not any("report" in update.line for update in told if update is not None)


# What is shown.


def test_the_answer_shows_what_was_measured_beside_what_was_predicted(events: list[dict[str, Any]]) -> None:
    report = events[-1]["report"]
    shown = advice_html.verdict(report) + advice_html.details(report)
    assert f'data-verdict="{report["verdict"]}"' in shown
    for each in report["measured"]:
        assert each["name"] in shown and f"{each['ratio']['median']:.2f}" in shown
    bars = dict(re.findall(r"<dt>(.+?)</dt>.*?<dd>([-+.0-9]+)</dd>", shown))
    parts = ("tokens a round", "drafting", "verifying and the rest", "reading the prompt")
    assert sum(float(bars[name]) for name in parts) == pytest.approx(float(bars["speed over plain"]), abs=0.03)
    assert len(page(report)) > 1e6  # the page to hand on holds plotly


def test_nothing_of_a_report_is_markup(events: list[dict[str, Any]]) -> None:
    report = json.loads(json.dumps(events[-1]["report"]))
    report |= {"sentences": [EVIL, EVIL], "notes": [EVIL], "machine": {"target": EVIL}}
    report["ready"] = [{"engine": EVIL, "settings": EVIL, "checked": EVIL, "note": EVIL}]
    for each in (*report["predicted"], *report["measured"]):
        each["name"] = EVIL
    shown = advice_html.verdict(report) + advice_html.details(report)
    assert "<script" not in shown + notes.refused(EVIL) and "alert" in shown


def test_every_objective_has_its_words() -> None:
    assert set(advice_html.OBJECTIVES) == set(Objective)
