"""A comparison takes steps, between which others decode, and says what must be measured before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from draftscope.base import progress
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope_app.doors.decide.compare.job import CompareJob
from draftscope_app.engine.answers import Answer
from draftscope_app.engine.jobs import EngineStatus
from draftscope_app.engine.work import Work, steps_of
from tests.support.measuring import CHOOSES, assert_one_thing_a_step


def compared(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    lanes = {"speculative": Settings.of(drafter=drafter, max_new_tokens=4)}
    return steps_of(engine, CompareJob(id="r", prompt="abc", lanes=lanes, repeats=1))


@pytest.mark.usefixtures("little_calibrated")
@pytest.mark.parametrize("drafter", CHOOSES)
def test_no_step_of_a_comparison_measures_more_than_one_thing(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, drafter: str
) -> None:
    assert_one_thing_a_step(pair, monkeypatch, compared, drafter)


@pytest.mark.usefixtures("little_calibrated")
def test_what_is_measured_before_a_comparison_is_said_with_its_share_and_the_time_left(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page said "starting" for 20 s while the costs of a round were measured, which `hybrid` chooses by."""
    monkeypatch.setattr(progress, "MIN_SECONDS", 0.0)
    engine = DecodingEngine(pair.target, pair.draft, pair.tokenizer, pair.heads)
    lanes = {"speculative": Settings.of(drafter="hybrid", max_new_tokens=8)}
    told = []
    for job in (CompareJob(id=name, prompt="abc", lanes=lanes, repeats=1) for name in ("r1", "r2")):
        work, update = Work(engine, job), None
        answer = Answer(stand_in(), job)
        said: list[str] = []
        while update is None or update.state != "done":
            update = work.advance()
            if update is not None:
                answer.take(update)
                said += [answer.progress.words if answer.progress else ""]
        told.append(said)
    first, second = told
    measuring = [words for words in first if words]
    assert first[: len(measuring)] == measuring and set(first[len(measuring) :]) == {""} == set(second)
    assert all(words.startswith("what a round costs here, once for this machine") for words in measuring)
    assert {"forwards of 1 sequence", "rounds of eagle3", "rounds of ngram"} <= {
        words.split(": ")[-1].split(",")[0] for words in measuring
    }
    shares = [int(found[1]) for words in measuring if (found := re.search(r", (\d+)%, .* left$", words))]
    assert len(shares) > 5 and shares[-1] > 80


def stand_in() -> Any:
    return SimpleNamespace(status=EngineStatus("ready", "stand-in"))
