"""An advice after a reload of the page."""

from __future__ import annotations

import re
from typing import Any

from draftscope.advise.question import Asked
from draftscope.drafters.settings import Settings
from draftscope_app.doors.decide.advise.job import AdviseJob
from draftscope_app.doors.decide.advise.page import Page
from tests.support.scripted import assert_found_again

LANES = {"plain": Settings.of(drafter="plain", max_new_tokens=4)}


def read(update: Any) -> tuple[list[int], str]:
    number = re.findall(r"look (\d+);", update[4])
    return list(map(int, number)), "queued" if update[2]["interactive"] else "done"


def test_an_advice_is_found_again() -> None:
    """It was lost. Nothing is shown of one that was stopped before there was a report."""
    assert_found_again(AdviseJob(id="r5", lanes=LANES, wish=Asked()), Page, read, over=())
