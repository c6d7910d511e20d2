"""What a presenter asks a class about a round of a live run, under node as the page asks it."""

from __future__ import annotations

from typing import Any

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.trace.events import Round
from draftscope_app.classroom.deck import checked
from draftscope_app.classroom.questions import Question
from tests.support.node import call

FILES = ["lessons/asking.js"]


def rounds_of(engine: DecodingEngine, **settings: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A lane without earlier tokens, and the rounds of a run."""
    chosen = Settings.of(drafter="draft", max_new_tokens=24, **settings)
    events = race([engine.start("Once", chosen, run="r", lane="l")])
    rounds = [event.model_dump(exclude_none=True) for event in events if isinstance(event, Round) and not event.cut]
    for each in rounds:
        each |= {"firstToken": 0, "drafted": len(each["nodes"]), "depth": len(each["nodes"])}
    return {"start": {"prompt": "Once"}, "tokens": []}, rounds


def test_a_guess_is_asked_about_with_its_own_numbers_and_the_server_takes_it(pair: DecodingEngine) -> None:
    lane, rounds = rounds_of(pair, gamma=3, temperature=1.0, rule="token")
    judged = [(round_, child) for round_ in rounds for each in round_["decisions"] for child in each["children"]]
    asked = call(FILES, [("verdictQuestion", [lane, round_, child["node"]]) for round_, child in judged])
    assert {child["passed"] for _, child in judged} == {True, False}
    for (_, child), found in zip(judged, asked, strict=True):
        question = checked(Question.model_validate(found))
        assert question.options[question.truth] == ("kept" if child["passed"] else "refused")
        assert len(question.hints) == 3 and len(question.guesses) == 1
        told = question.shown(0, False)
        assert told["hints"] == () and told["guesses"] == [{"text": question.guesses[0].text, "parent": -1}]


def test_a_guess_that_no_random_number_decided_is_not_asked_about(pair: DecodingEngine) -> None:
    for settings in ({"temperature": 0.0}, {"temperature": 1.0, "rule": "block"}):
        lane, rounds = rounds_of(pair, gamma=3, **settings)
        assert call(FILES, [("verdictQuestion", [lane, rounds[0], rounds[0]["nodes"][0]["id"]])]) == [None]


def test_the_whole_round_is_asked_about(pair: DecodingEngine) -> None:
    lane, rounds = rounds_of(pair, gamma=3, temperature=1.0, rule="token")
    for round_, found in zip(rounds, call(FILES, [("survivalQuestion", [lane, each]) for each in rounds]), strict=True):
        question = checked(Question.model_validate(found))
        assert question.options[question.truth] == str(round_["accepted"])
