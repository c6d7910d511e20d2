"""How many cores training takes."""

from __future__ import annotations

import os

import pytest

from tests.support.command import Cli, command_line


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys)


@pytest.mark.parametrize(
    ("words", "trains"),
    [
        (("train", "target", "--corpus", "texts"), "draftscope.train.family.train"),
        (("train-drafter", "--target", "m"), "draftscope.train.drafter_training.train_drafter"),
    ],
)
def test_training_takes_the_cores_that_it_may_use(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], trains: str
) -> None:
    """On one core of two, as with `taskset`, two threads waited for each other."""
    asked: list[int] = []
    monkeypatch.setattr(trains, lambda training: asked.append(training.threads) or True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert cli(*words).code == 0
    assert asked == [1]
