"""A log on the page: any JSON is answered, and nothing is computed on the event loop."""

from __future__ import annotations

import json

import pytest

from draftscope_app.doors.servers.rounds.page import MAX_TEXT, answered
from tests.log.test_readers import GAUGES, VLLM


def test_a_log_is_shown() -> None:
    said = answered({"name": "vllm.log", "text": VLLM})
    assert ("rounds with a draft", "74") in said["rows"] and len(said["positions"]) == 7
    assert "how long it took" in said["unknown"] and "note" not in said


def lines_of_vllm(*accepted: int) -> str:
    """A log of vLLM, a line every ten seconds: of 40 drafts of one token, so many were kept."""
    said = (
        "INFO 11-20 10:{minute:02}:{second:02} [metrics.py:120] SpecDecoding metrics: Mean acceptance length: "
        "{length:.2f}, Accepted: {kept} tokens, Drafted: 40 tokens, Per-position acceptance rate: {share:.3f}\n"
    )
    return "".join(
        said.format(minute=at // 6, second=10 * (at % 6), length=1 + kept / 40, kept=kept, share=kept / 40)
        for at, kept in enumerate(accepted)
    )


def test_a_servers_log_is_drawn_over_its_minutes() -> None:
    said = answered({"name": "vllm.log", "text": lines_of_vllm(*[30] * 6, *[0] * 6)})
    course = said["course"]
    assert course["axis"] == "minute" and len(course["points"]) == 12
    assert course["points"][6] == {"x": 1.0, "y": 0.0, "words": "line 7: 0 of 40 kept"}
    assert [point["y"] for point in course["points"]] == [0.75] * 6 + [0.0] * 6


def test_rounds_are_drawn_over_the_text_where_it_is_known() -> None:
    rounds = [{"round": number, "drafted": 2, "accepted": number % 3} for number in range(48)]
    course = answered({"text": "".join(json.dumps(each) + "\n" for each in rounds)})["course"]
    assert course["axis"] == "round" and course["points"][1] == {
        "x": 3,
        "y": 0.5,
        "words": "rounds 3 to 4: 2 of 4 kept",
    }
    assert len(course["points"]) == 24 and "After a kept guess" in course["sentences"][0]
    placed = [{**each, "position": 9 + 2 * each["round"]} for each in rounds]
    course = answered({"text": "".join(json.dumps(each) + "\n" for each in placed)})["course"]
    assert course["axis"] == "token" and course["points"][1]["x"] == 13


def test_an_alarm_is_said_and_little_is_not_drawn() -> None:
    dead = answered({"text": lines_of_vllm(*[0] * 12)})
    assert dead["alarm"].startswith("Alarm: ") and dead["course"] is not None
    few = answered({"text": VLLM})
    assert few["alarm"] == "" and few["course"] is None


def test_what_a_log_does_not_know_is_not_shown() -> None:
    said = answered({"text": GAUGES})
    assert said["positions"] == [] and [name for name, _ in said["rows"]] == ["tokens a round, as the engine says"]


@pytest.mark.parametrize(
    "sent",
    [None, [], "x", 3, {}, {"text": 3}, {"text": "x" * (MAX_TEXT + 1)}, {"text": "hello", "name": ["\n"]}],
    ids=str,
)
def test_anything_else_is_one_sentence(sent: object) -> None:
    assert list(answered(sent)) == ["note"] and "\n" not in answered(sent)["note"]
