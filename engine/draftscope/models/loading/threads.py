"""The number of threads with which a CPU decodes fastest, measured on the model because no rule of thumb works.

A small model's forward is mostly dispatch overhead, where threads wait for each other; a large one is limited by memory
bandwidth, where they help.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from time import perf_counter

import torch

ROWS = 5  # of the timed forward, as in a typical verify
TIMES = 7
LONGEST = 0.5  # seconds for timing one candidate
HOPELESS = 1.3  # if a candidate takes this many times the best so far, more threads are not tried


def cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fastest_threads(work: Callable[[], object], most: int, clock: Callable[[], float] = perf_counter) -> int:
    """The number of threads, up to `most`, with which `work` is fastest. Leaves torch set to that number."""
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
    """Median seconds; the first run, which starts the threads, is not counted."""
    work()
    taken: list[float] = []
    began = clock()
    while len(taken) < TIMES and (len(taken) < 2 or clock() - began < LONGEST):
        start = clock()
        work()
        taken.append(clock() - start)
    return statistics.median(taken)
