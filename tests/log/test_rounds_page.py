"""A log on the page: any JSON is answered, and nothing is computed on the event loop."""

from __future__ import annotations

import pytest

from draftscope_app.doors.servers.rounds.page import MAX_TEXT, answered
from tests.log.test_readers import GAUGES, VLLM


def test_a_log_is_shown() -> None:
    said = answered({"name": "vllm.log", "text": VLLM})
    assert ("rounds with a draft", "74") in said["rows"] and len(said["positions"]) == 7
    assert "how long it took" in said["unknown"] and "note" not in said


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
