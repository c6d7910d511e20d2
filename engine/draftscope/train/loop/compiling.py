"""`torch.compile` where a C++ compiler exists, the same function uncompiled elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import torch

Loss = Callable[..., torch.Tensor]


def compiled(function: Loss) -> Loss:
    """The fast version of `function`; says so when there is none. What was compiled before it is forgotten, so that
    many members one after the other stay below torch's limit of versions."""
    if shutil.which("g++") or shutil.which("clang++"):
        torch.compiler.reset()
        return torch.compile(function, dynamic=False)
    print("No C++ compiler found: training uncompiled, at about half the speed.")
    return function
