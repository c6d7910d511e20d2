"""Arrays of the host as tensors of a device, in one copy: on CUDA each copy from the host also waits for the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def tensors_on(device: torch.device | str, *arrays: np.ndarray[Any, Any]) -> list[Tensor]:
    """The arrays there, in the same shapes and dtypes; those with wider numbers come first."""
    here = [torch.from_numpy(array) for array in arrays]
    if torch.device(device).type == "cpu":
        return here
    flat = torch.from_numpy(np.concatenate([array.reshape(-1).view(np.uint8) for array in arrays])).to(device)
    parts = zip(torch.split(flat, [array.nbytes for array in arrays]), here, strict=True)
    return [
        part.view(cpu.dtype).view(cpu.shape) if cpu.numel() else torch.empty(cpu.shape, dtype=cpu.dtype, device=device)
        for part, cpu in parts
    ]
