"""`torch.compile` where a C++ compiler exists, the same function uncompiled elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import torch

Loss = Callable[..., torch.Tensor]


def compiled(function: Loss) -> Loss:
    """The fast version of `function`; says so when there is none."""
    if shutil.which("g++") or shutil.which("clang++"):
        return torch.compile(function, dynamic=False)
    print("No C++ compiler found: training uncompiled, at about half the speed.")
    return function
