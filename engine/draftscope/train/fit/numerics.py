"""How training computes: matmuls in bf16, or in fp32 on CPUs where that is faster; compiled if there is a compiler."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeVar, cast

import torch

from draftscope.models.loading.devices import fastest_dtype

Function = TypeVar("Function", bound=Callable[..., object])

ROWS = 256  # of the timed matmuls: enough rows to be limited by arithmetic, not by reading the weights


@cache
def precision(kind: str) -> torch.dtype:
    """bfloat16 on a GPU, the fastest dtype on a CPU; measured once."""
    return fastest_dtype(ROWS) if kind == "cpu" else torch.bfloat16


@contextmanager
def mixed(device: torch.device) -> Iterator[None]:
    """Autocast: weights stay in fp32, matmuls run in `precision`.

    A norm of 16-bit rows with 32-bit weights is not fused. torch warns of that, and it is meant here.
    """
    dtype = precision(device.type)
    with warnings.catch_warnings(), torch.autocast(device.type, torch.bfloat16, enabled=dtype is torch.bfloat16):
        warnings.filterwarnings("ignore", "Mismatch dtype between input and weight")
        yield


def compiled(function: Function) -> Function:
    """`function` by `torch.compile`, or unchanged if there is no C++ compiler.

    Resets torch's compiler first, so that training many members does not exceed its limit of recompilations.
    """
    if not _has_compiler():
        return function
    torch.compiler.reset()
    return cast(Function, torch.compile(function, dynamic=False))


@cache
def _has_compiler() -> bool:
    """Whether there is a C++ compiler; says it once if there is none."""
    if shutil.which("g++") or shutil.which("clang++"):
        return True
    print("No C++ compiler found: training without torch.compile, at about half the speed.")
    return False
