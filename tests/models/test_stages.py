"""The steps of loading as whoever watches is told them."""

from __future__ import annotations

import threading

import pytest

from draftscope.base import stages
from draftscope.base.progress import Progress
from draftscope.base.stages import STAGES, Stage, megabytes, tell, watched_by
from tests.support.runs import PATIENCE_S


def test_a_step_that_says_nothing_is_told_again_with_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs a second whenever it is looked at; nobody tells anything after the first word."""
    monkeypatch.setattr(stages, "PERIOD_S", 0.01)
    now, said, enough = [0.0], [], threading.Event()

    def clock() -> float:
        now[0] += 1
        return now[0]

    def watch(at: Progress) -> None:
        said.append(at.words)
        if len(said) >= 5:
            enough.set()

    with watched_by(watch, clock):
        tell(Stage.READ, "a model")
        assert enough.wait(PATIENCE_S)
    assert len(set(said)) == len(said)  # no two words are alike
    number = STAGES.index(Stage.READ) + 1
    assert said[0] == f"step {number} of {len(STAGES)}: reading the weights: a model"
    assert said[4] == f"step {number} of {len(STAGES)}, 5 s: reading the weights: a model"


def test_what_a_step_says_and_the_next_step_are_told_at_once() -> None:
    said: list[Progress] = []
    with watched_by(said.append, lambda: 0.0):
        tell(Stage.FETCH, megabytes(0, 93_000_000))
        tell(Stage.FETCH, megabytes(31_400_000, 93_000_000), 0.34)
        tell(Stage.CHECK)
    words = [at.words for at in said]
    assert words[1].endswith("fetching the model: 31 of 93 MB, 34%")
    assert words[2].endswith("checking the forward")
    assert [at.share for at in said[:3]] == [0.0, 0.34, 0.0]


def test_nothing_is_told_outside_and_afterwards() -> None:
    said: list[Progress] = []
    tell(Stage.READ)
    with watched_by(said.append):
        pass
    tell(Stage.READ)
    assert said == []
    assert not [one for one in threading.enumerate() if one.name == "draftscope-stages"]
