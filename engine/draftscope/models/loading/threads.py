"""The number of threads with which a CPU decodes fastest, measured on the model because no rule of thumb works.

A small model's forward is mostly dispatch overhead, where threads wait for each other; a large one is limited by memory
bandwidth, where they help. The choice is kept for each model and machine: measured beside a busy process it would be
another one, and with it the costs of everything.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

from draftscope.base.assets import cache_folder
from draftscope.base.cores import Company, OtherCores

ROWS = 5  # of the timed forward, as in a typical verify
TIMES = 7
LONGEST = 0.5  # seconds for timing one candidate
HOPELESS = 1.3  # if a candidate takes this many times the best so far, more threads are not tried


@dataclass(frozen=True)
class ThreadChoice:
    """The number of threads, and the cores that other processes used while it was measured; None if it was kept from
    before."""

    threads: int
    company: Company | None = None

    @property
    def disturbed(self) -> bool:
        return self.company is not None and self.company.disturbs

    def __str__(self) -> str:
        number = f"{self.threads} thread{'' if self.threads == 1 else 's'}"
        if self.disturbed:
            return (
                f"{number}, chosen while {self.company}: other costs than on a quiet machine, and not kept for the "
                "next load; --threads N sets it."
            )
        return f"{number}, the fastest when this model was first loaded on this machine; --threads N sets another."


def kept_threads(key: str, work: Callable[[], object], most: int) -> ThreadChoice:
    """The choice that was kept under `key`, or `fastest_threads`, which is kept unless other processes disturbed it.
    Leaves torch set to it."""
    file = cache_folder() / "threads.json"
    try:
        threads = int(json.loads(file.read_text())[key])
        torch.set_num_threads(threads)
        return ThreadChoice(threads)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):  # nothing kept, or nothing that is a choice
        pass
    meter = OtherCores()
    threads = fastest_threads(work, most)
    choice = ThreadChoice(threads, Company.of([meter.lap()], most))
    if not choice.disturbed:
        _keep(file, key, threads)
    return choice


def _keep(file: Path, key: str, threads: int) -> None:
    """Adds a choice to the file, if it can be written."""
    try:
        kept = json.loads(file.read_text())
    except (OSError, ValueError):
        kept = {}
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(kept | {key: threads}, indent=1))


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
