"""Memory that runs out is said in a sentence with what to lower, and is no internal error."""

from __future__ import annotations

import errno
import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from draftscope.base.errors import memory_ran_out
from draftscope.base.load_settings import LoadSettings
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope_app.engine import worker
from draftscope_app.engine.beats import Beats
from draftscope_app.engine.jobs import EngineStatus
from draftscope_app.engine.run_job import RunJob
from draftscope_app.engine.work import NO_MEMORY, Work
from draftscope_app.engine.worker import _Worker


@pytest.fixture(params=["python", "processor", "card", "map"])
def no_memory(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """What a library does where there is none left."""

    def fails(*_: object, **__: object) -> Any:
        match request.param:
            case "python":
                raise MemoryError
            case "processor":
                return torch.empty(2**45)
            case "card":
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    return fails


def test_memory_that_runs_out_in_a_run_says_what_to_lower(
    pair: DecodingEngine, no_memory: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was called an internal error of the engine."""
    monkeypatch.setattr(DecodingEngine, "opening", no_memory)
    work = Work(pair, RunJob(id="r", prompt="a", lanes={"plain": Settings.of(drafter="plain")}))
    update = work.advance()
    assert update is not None and update.state == "done" and update.note == NO_MEMORY
    assert "shorten the prompt" in update.note and "internal" not in update.note


def test_memory_that_runs_out_while_models_load_says_so(
    no_memory: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "opened", no_memory)
    pipe, theirs = multiprocessing.Pipe()
    _Worker(theirs, LoadSettings(), Beats(multiprocessing.RawValue("Q")))
    while pipe.poll():  # it has loaded when it is made: all that it says is in the pipe
        status = pipe.recv()
    assert status == EngineStatus("failed", worker.NO_MEMORY)


@pytest.mark.parametrize("error", [RuntimeError("no memory of it"), ValueError("out of memory"), KeyError("a")])
def test_other_errors_are_none_of_memory(error: Exception) -> None:
    assert not memory_ran_out(error)
