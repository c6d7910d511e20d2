"""On what a model runs: the device and dtype that the user named or the fastest, and the fastest number of threads.

Threads are measured on the model because no rule of thumb works. A small model's forward is mostly dispatch overhead,
where threads wait for each other; a large one is limited by memory bandwidth, where they help. The choice is kept for
each model and machine: measured beside a busy process it would be another one, and with it the costs of everything.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
import torch.nn.functional as F

from draftscope.base.assets import cache_folder
from draftscope.base.cores import Company, OtherCores
from draftscope.base.errors import DraftscopeError
from draftscope.models.native.available import why_not

WIDTH, WEIGHTS = 2048, 4  # of the matmuls timed to choose a CPU's dtype: 67 MB in float32
STORED = "stored"  # weights of a quantised file as they are stored; the rest in bfloat16
DTYPES = {STORED: torch.bfloat16, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
ROWS = 5  # of the timed forward, as in a typical verify
TIMES = 7
LONGEST = 0.5  # seconds for timing one candidate
HOPELESS = 1.3  # if a candidate takes this many times the best so far, more threads are not tried
DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")


def pick_device(name: str) -> torch.device:
    """The device; 'auto' is CUDA if available, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DraftscopeError(f"There is no device '{name}'; choose auto, cpu or cuda.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DraftscopeError(f"device = '{name}': this machine has no CUDA; choose cpu or auto.")
    return device


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """The dtype; 'auto' is bfloat16, unless on a CPU where products are not compiled: there it is the fastest one.

    The compiled product widens bfloat16 in registers, so it is as fast as the speed of memory allows on any processor.
    """
    if name == "auto":
        return fastest_dtype() if device.type == "cpu" and why_not() else torch.bfloat16
    if name not in DTYPES:
        raise DraftscopeError(f"dtype = '{name}': choose from auto, {', '.join(DTYPES)}.")
    return DTYPES[name]


def fastest_dtype(rows: int = ROWS, clock: Callable[[], float] = perf_counter) -> torch.dtype:
    """bfloat16 or float32, whichever multiplies `rows` rows, as many as in a verify, by large weights faster here.

    On a CPU without bfloat16 instructions, bfloat16 is slower although its weights are half as large. Timed alternately
    on one thread, by the shortest time, so that other work on the machine does not decide.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _fastest({dtype: _multiplying(dtype, rows) for dtype in (torch.bfloat16, torch.float32)}, clock)
    finally:
        torch.set_num_threads(threads)


def _fastest(works: dict[torch.dtype, Callable[[], object]], clock: Callable[[], float]) -> torch.dtype:
    least, began = dict.fromkeys(works, math.inf), clock()
    for _ in range(TIMES):
        for dtype, work in works.items():
            start = clock()
            work()
            least[dtype] = min(least[dtype], clock() - start)
        if clock() - began > LONGEST:
            break
    return min(least, key=lambda dtype: least[dtype])


def _multiplying(dtype: torch.dtype, count: int) -> Callable[[], object]:
    weights = [torch.ones(WIDTH, WIDTH, dtype=dtype) for _ in range(WEIGHTS)]
    rows = torch.ones(count, WIDTH, dtype=dtype)
    return lambda: [F.linear(rows, weight) for weight in weights]


def pick_device_map(name: str | None, device: str) -> str | None:
    """A device map that accelerate supports. Raises DraftscopeError if a device is given as well."""
    if name is None:
        return None
    if name not in DEVICE_MAPS:
        raise DraftscopeError(f"device_map = '{name}': choose from {', '.join(DEVICE_MAPS)}.")
    if device != "auto":
        raise DraftscopeError(f"device = '{device}' and device_map = '{name}' exclude each other; use one of them.")
    return name


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
