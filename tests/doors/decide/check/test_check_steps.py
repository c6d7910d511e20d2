"""A check takes steps, between which others decode."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope_app.doors.decide.check.job import CheckJob
from draftscope_app.engine.work import steps_of
from tests.support.measuring import CHOOSES, assert_one_thing_a_step


def checking(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    job = CheckJob(id="r", prompt="", lanes={"checked": Settings.of(drafter=drafter)}, samples=100)
    return islice(steps_of(engine, job), 4000)


@pytest.mark.usefixtures("little_calibrated")
@pytest.mark.parametrize("drafter", CHOOSES)
def test_no_step_of_a_check_measures_more_than_one_thing(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, drafter: str
) -> None:
    assert_one_thing_a_step(pair, monkeypatch, checking, drafter)
