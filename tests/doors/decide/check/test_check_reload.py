"""A check after a reload of the page."""

from __future__ import annotations

from draftscope.drafters.settings import Settings
from draftscope_app.doors.decide.check.job import CheckJob
from draftscope_app.doors.decide.check.page import Page
from tests.support.scripted import assert_found_again

LANES = {"plain": Settings.of(drafter="plain", max_new_tokens=4)}


def test_a_check_is_found_again() -> None:
    assert_found_again(CheckJob(id="r2", lanes=LANES, samples=500), Page)
