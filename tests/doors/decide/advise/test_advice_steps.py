"""An advice takes steps, between which others decode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from draftscope.advise.question import Asked, Question
from draftscope.decode.engine import DecodingEngine
from draftscope_app.doors.decide.advise.job import AdviseJob
from draftscope_app.engine.work import steps_of
from tests.support.measuring import CHOOSES, assert_one_thing_a_step


def advised(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    asked = Asked(Question(length=8, seconds=2.0), {"prompts": ["abcab", "ddebc"]}, (drafter,), waits=True)
    return steps_of(engine, AdviseJob(id="r", prompt="", lanes={}, wish=asked))


@pytest.mark.usefixtures("little_calibrated")
@pytest.mark.parametrize("drafter", CHOOSES)
def test_no_step_of_an_advice_measures_more_than_one_thing(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, drafter: str
) -> None:
    assert_one_thing_a_step(pair, monkeypatch, advised, drafter)
