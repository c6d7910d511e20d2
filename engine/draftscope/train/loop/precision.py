"""The precision of training's matmuls: bf16, or fp32 on CPUs without bf16 instructions, where bf16 is slower."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

from draftscope.models.loading.devices import fastest_dtype

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
