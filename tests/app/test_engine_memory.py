"""Neither the engine process nor the page's keeps memory that is free."""

from __future__ import annotations

import gc
from pathlib import Path
from unittest.mock import Mock

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from draftscope_app.engine.free_memory import TRIM_S, Trimmer, give_back
from draftscope_app.engine.visitors import Visitors
from draftscope_app.serve import heartbeats


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def test_what_is_free_between_pieces_that_stay_goes_back_to_the_system() -> None:
    """It stayed with the process, which grew from run to run though nothing in it did."""
    pieces = [bytearray(100_000) for _ in range(2000)]  # small enough for the heap
    stays = pieces[::50]
    full = resident_mb()
    del pieces
    gc.collect()
    give_back()
    assert len(stays) == 40 and full - resident_mb() > 100


def test_it_is_given_back_after_runs_but_not_after_every_one() -> None:
    now, times = 0.0, list[float]()
    trimmer = Trimmer(lambda: now, lambda: times.append(now))
    for _ in range(100):
        now += TRIM_S / 4
        trimmer.trim()
    assert times == [TRIM_S * number for number in range(1, 26)]


def test_it_is_given_back_when_a_page_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmer = Mock(Trimmer)
    monkeypatch.setattr(heartbeats, "Trimmer", lambda: trimmer)
    TestClient(Starlette(routes=heartbeats.routes(Visitors()))).post("/left", content="0" * 32)
    trimmer.trim.assert_called_once_with()
