"""What a presenter asks a class about a live run, under node as the page asks it."""

from __future__ import annotations

from typing import Any

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.trace.events import Round
from draftscope_app.doors.learn.classroom.deck import check_question
from draftscope_app.doors.learn.classroom.questions import Question
from tests.instrument.test_speed import WORDS, lane, store
from tests.support.node import call

FILES = ["doors/learn/classroom/asking.js"]


def rounds_of(engine: DecodingEngine, **settings: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A lane without earlier tokens, and the rounds of a run."""
    chosen = Settings.of(drafter="draft", max_new_tokens=24, **settings)
    events = race([engine.start("Once", chosen, run="r", lane="l")])
    rounds = [event.model_dump(exclude_none=True) for event in events if isinstance(event, Round) and not event.cut]
    for each in rounds:
        each |= {"firstToken": 0, "drafted": len(each["nodes"]), "depth": len(each["nodes"])}
    return {"start": {"prompt": "Once"}, "tokens": []}, rounds


def test_a_guess_is_asked_about_with_its_own_numbers_and_the_server_takes_it(pair: DecodingEngine) -> None:
    of, rounds = rounds_of(pair, gamma=3, temperature=1.0, rule="token")
    judged = [(round_, child) for round_ in rounds for each in round_["decisions"] for child in each["children"]]
    asked = call(FILES, [("verdictQuestion", [of, round_, child["node"]]) for round_, child in judged])
    assert {child["passed"] for _, child in judged} == {True, False}
    for (_, child), found in zip(judged, asked, strict=True):
        question = check_question(Question.model_validate(found))
        assert question.options[question.truth] == ("kept" if child["passed"] else "refused")
        assert len(question.hints) == 3 and len(question.guesses) == 1
        assert [bar.name for bar in question.bars] == list(question.options)
        told = question.shown(0, False)
        assert told["hints"] == () and told["guesses"] == [{"text": question.guesses[0].text, "parent": -1}]


def test_a_guess_that_no_random_number_decided_is_not_asked_about(pair: DecodingEngine) -> None:
    for settings in ({"temperature": 0.0}, {"temperature": 1.0, "rule": "block"}):
        of, rounds = rounds_of(pair, gamma=3, **settings)
        assert call(FILES, [("verdictQuestion", [of, rounds[0], rounds[0]["nodes"][0]["id"]])]) == [None]


def test_the_whole_round_is_asked_about(pair: DecodingEngine) -> None:
    of, rounds = rounds_of(pair, gamma=3, temperature=1.0, rule="token")
    of["rounds"] = rounds
    for round_, found in zip(rounds, call(FILES, [("survivalQuestion", [of, each]) for each in rounds]), strict=True):
        question = check_question(Question.model_validate(found))
        alike = [each for each in rounds if each["drafted"] == round_["drafted"]]
        times = [sum(each["accepted"] == n for each in alike) for n in range(len(question.options))]
        many = "round" if len(alike) == 1 else "rounds"
        assert [bar.value for bar in question.bars] == [f"{n} of {len(alike)} {many}" for n in times]
        assert question.options[question.truth] == str(round_["accepted"])


def test_lanes_of_different_drafters_are_compared_by_the_speeds_that_the_page_shows() -> None:
    plain, draft = lane("plain", WORDS, 1, 20.0), lane("draft", WORDS, 4, 40.0)
    faster = store(plain, draft)
    solo = store(lane("plain", WORDS, 1, 20.0, seconds=[1.0] * 3), lane("draft", WORDS, 4, 40.0, seconds=[2.0] * 3))
    stopped = store(plain, draft | {"end": {"reason": "cancelled"}})
    runs = [faster, solo, store(draft, draft), stopped, faster | {"lanes": [draft]}]
    found = call(FILES, [("fasterQuestion", [prompted(run)]) for run in runs])
    assert [each and each["options"][each["truth"]] for each in found] == ["draft", "plain", None, None, None]
    question = check_question(Question.model_validate(found[0]))
    assert [(bar.name, bar.value, bar.part) for bar in question.bars] == [
        ("plain", "50.0 tokens/s", 0.5), ("draft", "100 tokens/s", 1.0),
    ]  # fmt: skip
    assert question.said == (
        "draft: a round gives 4.00 tokens and takes 2.00 times as long as a plain one. Guesses that are kept save more "
        "than guessing costs."
    )
    assert check_question(Question.model_validate(found[1])).said.endswith("save no more than guessing costs.")


def test_the_longest_wait_is_asked_about_where_it_stands_out() -> None:
    even, late = (prompted(store(lane("plain", WORDS, 1, 20.0), lane("draft", WORDS, 4, 40.0))) for _ in range(2))
    for round_ in late["lanes"][1]["rounds"][6:]:
        round_["end"] += 100.0
    short = late["lanes"][1] | {"rounds": late["lanes"][1]["rounds"][4:]}
    asked = [even["lanes"][1], late["lanes"][1], short, late["lanes"][1] | {"end": None}]
    none, found, *others = call(FILES, [("gapQuestion", [each]) for each in asked])
    assert [none, *others] == [None, None, None]
    question = check_question(Question.model_validate(found))
    assert len(set(question.options)) == 4 and question.options[question.truth] == "t24t25t26t27"
    assert [bar.value for bar in question.bars].count("140 ms") == 1
    assert question.said == "The median of all 9 waits is 40.0 ms."


def prompted(run: dict[str, Any]) -> dict[str, Any]:
    """The run with a prompt, and a text for each token, and without the nodes of its trees, which have no ids."""
    for each in run["lanes"]:
        each["start"]["prompt"] = "Once"
        each["tokens"] = [{**token, "text": f"t{token['id']}"} for token in each["tokens"]]
        for round_ in each["rounds"]:
            round_["nodes"] = []
            round_["emitted_raw"] = [f"t{token}" for token in round_["emitted"]]
    return run
