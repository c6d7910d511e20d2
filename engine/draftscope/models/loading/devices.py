"""Turns the user's names of devices and dtypes into torch's, and chooses the fastest for 'auto'."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from time import perf_counter

import torch

from draftscope.base.errors import DraftscopeError
from draftscope.models.forward.linear import product
from draftscope.models.loading.threads import LONGEST, ROWS, TIMES
from draftscope.models.native.available import why_not

WIDTH, WEIGHTS = 2048, 4  # of the matmuls timed to choose a CPU's dtype: 67 MB in float32
STORED = "stored"  # weights of a quantised file as they are stored; the rest in bfloat16
DTYPES = {STORED: torch.bfloat16, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
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
    products = [product(torch.ones(WIDTH, WIDTH, dtype=dtype), packed=True) for _ in range(WEIGHTS)]
    rows = torch.ones(count, WIDTH, dtype=dtype)
    return lambda: [multiply(rows) for multiply in products]


def pick_device_map(name: str | None, device: str) -> str | None:
    """A device map that accelerate supports. Raises DraftscopeError if a device is given as well."""
    if name is None:
        return None
    if name not in DEVICE_MAPS:
        raise DraftscopeError(f"device_map = '{name}': choose from {', '.join(DEVICE_MAPS)}.")
    if device != "auto":
        raise DraftscopeError(f"device = '{device}' and device_map = '{name}' exclude each other; use one of them.")
    if find_spec("accelerate") is None:
        raise DraftscopeError(f"device_map = '{name}' needs accelerate; install it with 'pip install accelerate'.")
    return name
