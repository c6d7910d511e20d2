"""The comparison that a visitor asks for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope_app.doors.decide.compare import page as compare_task
from draftscope_app.engine.jobs import DrafterChoice
from draftscope_app.page.controls import defaults
from draftscope_app.page.task import TaskListeners
from tests.support.bare_page import MOST, bare_page, first_note


def choice(name: str, *uses: str, available: bool = True) -> DrafterChoice:
    return DrafterChoice(name, name.title(), True, available, "" if available else "not here", uses)


def test_every_drafter_that_can_run_is_compared_with_what_it_reads() -> None:
    known = [
        choice("plain"), choice("draft", "gamma", "rule"), choice("ngram", "gamma", "ngram"), choice("typed", "typed"),
        choice("mamba", "gamma", available=False),
    ]  # fmt: skip
    job = compare_task.comparison_of(defaults() | {"prompt": "x", "gamma": 6, "drafter": "plain"}, known)
    assert list(job.lanes) == ["plain", "draft", "ngram"]
    assert job.lanes["ngram"].model_dump()["gamma"] == 6
    assert "rule" not in job.lanes["ngram"].model_dump()
    assert job.repeats == compare_task.REPEATS
    assert compare_task.Page.about(None, job)["lanes"] == 3
    typed = compare_task.comparison_of(defaults() | {"prompt": "x", "typed": "and"}, known)
    assert list(typed.lanes)[-1] == "typed"
    with pytest.raises(DraftscopeError, match="no drafter to compare"):
        compare_task.comparison_of(defaults() | {"prompt": "x"}, [])


REFUSED = {"": "The prompt is empty", "a\ud800": "half of a character", "x" * (MOST + 1): "shorten it"}


@pytest.mark.parametrize(("prompt", "words"), REFUSED.items(), ids=("empty", "half", "long"))
def test_a_prompt_that_no_lane_would_take_is_refused_at_once(prompt: str, words: str) -> None:
    shared, controls = bare_page()
    listeners = TaskListeners(shared, compare_task.Page(shared), controls)
    assert words in first_note(listeners.begin, controls, prompt, SimpleNamespace(payload=None))


def test_drafters_for_another_tokenizer_are_compared_only_where_the_draft_has_one(
    pair: DecodingEngine, through_text: DecodingEngine
) -> None:
    detours = [{d.name for d in engine.drafters() if d.is_detour} for engine in (pair, through_text)]
    assert detours == [{"slem", "tli"}, set()]
    known = [choice("plain"), choice("draft", "gamma"), replace(choice("slem", "gamma"), is_detour=True)]
    assert list(compare_task.comparison_of(defaults() | {"prompt": "x"}, known).lanes) == ["plain", "draft"]
