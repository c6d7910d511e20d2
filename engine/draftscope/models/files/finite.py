"""Weights that are no numbers. One of them makes NaN of everything that is computed from it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

CHECKED = (torch.float16, torch.bfloat16, torch.float32)  # quantised weights are read by whoever knows their format


def not_finite(weights: Iterable[tuple[str, Tensor]]) -> str:
    """What is wrong with the first weight that has NaN or infinity in it, as the end of a sentence about a checkpoint;
    empty if all are finite.

    Sums are not finite if an entry is not, and read the weights once; only a sum that overflowed is looked into.
    """
    sums = [(name, weight, weight.sum()) for name, weight in weights if weight.dtype in CHECKED and not weight.is_meta]
    for name, weight, total in sums:
        if not math.isfinite(total.item()) and not bool(weight.isfinite().all()):
            wider = "" if weight.dtype == torch.float32 else ", or load it with dtype 'float32'"
            dtype = str(weight.dtype).removeprefix("torch.")
            return f"has NaN or infinity in its weight '{name}' in {dtype}; download or write it again{wider}."
    return ""
