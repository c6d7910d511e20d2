"""The check that a visitor asks for."""

from __future__ import annotations

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope_app.doors.decide.check import page as check_task


def test_the_shown_runs_drafter_and_rule_are_checked(pair: DecodingEngine) -> None:
    events = pair.decode("abc", rule="lenient", lenience=0.3, temperature=1.0, max_new_tokens=4, seed=9).events
    job = check_task.check_of(events)
    assert check_task.Page.about(None, job)["settings"] == {
        "drafter": "draft", "rule": "lenient", "lenience": 0.3, "agreement": 3, "draft_length": "fixed",
        "confidence": 0.4, "seed": 9,
    }  # fmt: skip
    assert job.samples == check_task.SAMPLES
    with pytest.raises(DraftscopeError, match="Nothing was drafted"):
        check_task.check_of(pair.decode("abc", "plain", max_new_tokens=2).events)
