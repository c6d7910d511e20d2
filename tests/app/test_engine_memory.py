"""The engine process keeps no memory that is free."""

from __future__ import annotations

import gc
from pathlib import Path

from draftscope_app.engine.memory import TRIM_S, Trimmer, give_back


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
