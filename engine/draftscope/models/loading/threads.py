"""How many threads a CPU decodes fastest with: asked of the model itself, because no rule of thumb holds.

A small model's forward is mostly dispatch, where threads wait for each other; a large one is memory, where they help.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from time import perf_counter

import torch

ROWS = 5  # of the forward that is timed: a usual verify
TIMES = 7
LONGEST = 0.5  # seconds after which a candidate has been timed often enough
HOPELESS = 1.3  # times the best so far: more threads are not tried


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fastest_threads(work: Callable[[], object], most: int, clock: Callable[[], float] = perf_counter) -> int:
    """The number of threads, up to `most`, with which `work` took the least time; torch is left with that many."""
    best, least = 1, float("inf")
    candidates = sorted({min(2**power, most) for power in range(most.bit_length() + 1)})
    for threads in candidates:
        torch.set_num_threads(threads)
        taken = _timed(work, clock)
        if taken < least:
            best, least = threads, taken
        elif taken > HOPELESS * least:
            break
    torch.set_num_threads(best)
    return best


def _timed(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Median seconds; the first run, which starts the threads, does not count."""
    work()
    taken: list[float] = []
    began = clock()
    while len(taken) < TIMES and (len(taken) < 2 or clock() - began < LONGEST):
        start = clock()
        work()
        taken.append(clock() - start)
    return statistics.median(taken)
