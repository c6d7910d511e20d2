"""The engine here as a lane beside servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.servers.engine_lane import EngineLane
from draftscope.servers.field import Field, request_of
from draftscope.servers.server_race import Race, RaceLane, RacePrompt
from tests.support.measuring import CHOOSES, assert_one_thing_a_step


def test_what_drafts_through_text_is_named_as_its_run_names_it(through_text: DecodingEngine) -> None:
    run = through_text.decode("abcabc", "draft", max_new_tokens=4)
    lane = EngineLane(through_text, Settings.of(drafter="draft", max_new_tokens=4))
    assert lane.identity.model == run.start.drafter == "slem"


def raced(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    settings = Settings.of(drafter=drafter, max_new_tokens=4)
    plan = Race([RacePrompt("abc", tuple(engine.encode("abc")))], request_of(settings), 1)
    return Field([RaceLane("here", EngineLane(engine, settings))], {}, engine).race(plan)


@pytest.mark.usefixtures("little_calibrated")
@pytest.mark.parametrize("drafter", CHOOSES)
def test_no_step_of_a_race_measures_more_than_one_thing(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, drafter: str
) -> None:
    assert_one_thing_a_step(pair, monkeypatch, raced, drafter)
