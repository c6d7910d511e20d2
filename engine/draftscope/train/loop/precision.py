"""What training multiplies in: bf16, or fp32 on a processor that has no instructions for bf16 and is slower with it."""

from __future__ import annotations

from functools import cache

import torch

from draftscope.models.loading.devices import fastest_dtype

ROWS = 256  # of the products that choose: enough that arithmetic counts and not the weights' memory


@cache
def precision(kind: str) -> torch.dtype:
    """bfloat16 on a GPU, and on a CPU what it multiplies fastest; measured once."""
    return fastest_dtype(ROWS) if kind == "cpu" else torch.bfloat16


def mixed(device: torch.device) -> torch.autocast:
    """Weights stay in fp32; their products are taken in `precision`."""
    dtype = precision(device.type)
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype is torch.bfloat16)
