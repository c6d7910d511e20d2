"""`torch.compile` if there is a C++ compiler, otherwise the uncompiled function."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import torch

Loss = Callable[..., torch.Tensor]


def compiled(function: Loss) -> Loss:
    """`function` compiled, or unchanged with a printed note if there is no compiler.

    Resets torch's compiler first, so that training many members does not exceed its limit of recompilations.
    """
    if shutil.which("g++") or shutil.which("clang++"):
        torch.compiler.reset()
        return torch.compile(function, dynamic=False)
    print("No C++ compiler found: training without torch.compile, at about half the speed.")
    return function
