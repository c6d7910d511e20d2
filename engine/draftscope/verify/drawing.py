"""Draws tokens, on a processor with numba in compiled loops.

A distribution that is not finite gives any token: the target's pass marks it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from draftscope.base.compiling import kept_or_not


@lru_cache(maxsize=1)
def loops() -> Any:
    """The compiled loops; None without numba, or where it cannot compile them."""
    if find_spec("numba") is None:
        return None
    try:
        return kept_or_not(lambda: import_module("draftscope.verify.loops"))
    except Exception:  # numba's and LLVM's errors have no common base class
        return None


def draw(distribution: Tensor, uniform: Tensor) -> Tensor:
    """Draws one token a row by inverting the cumulative distribution.

    distribution [..., V], uniform [...] in [0, 1) -> [...] int64. The sum is in fp64, so a token of probability 0 is
    never drawn and every token's frequency is right to about 1e-7.
    """
    if in_loops(distribution):
        tokens = torch.empty(uniform.shape, dtype=torch.long)
        rows = distribution.reshape(-1, distribution.shape[-1])
        loops().draw(array(rows), array(uniform.double().reshape(-1)), array(tokens.view(-1)))
        return tokens
    cumulative = distribution.cumsum(-1, dtype=torch.float64)
    scaled = (uniform.unsqueeze(-1) * cumulative[..., -1:]).contiguous()
    return torch.searchsorted(cumulative, scaled, right=True).squeeze(-1).clamp_(max=distribution.shape[-1] - 1)


def in_loops(distribution: Tensor) -> bool:
    """Whether a distribution can be given to the compiled loops."""
    return distribution.device.type == "cpu" and distribution.dtype is torch.float32 and loops() is not None


def array(tensor: Tensor) -> Any:
    """A tensor as the loops read it."""
    return tensor.contiguous().numpy()
