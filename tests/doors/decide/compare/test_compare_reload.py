"""A comparison after a reload of the page."""

from __future__ import annotations

from draftscope.drafters.settings import Settings
from draftscope_app.doors.decide.compare.job import CompareJob
from draftscope_app.doors.decide.compare.page import Page
from tests.support.scripted import assert_found_again

LANES = {"plain": Settings.of(drafter="plain", max_new_tokens=4)}


def test_a_comparison_is_found_again() -> None:
    assert_found_again(CompareJob(id="r1", lanes=LANES, repeats=3), Page)
