"""Where models run and in what precision: from the words of a user to torch's."""

from __future__ import annotations

from importlib.util import find_spec

import torch

from draftscope.errors import DraftscopeError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")


def pick_device(name: str) -> torch.device:
    """'auto' is CUDA where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DraftscopeError(f"There is no device '{name}'; choose auto, cpu or cuda.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DraftscopeError(f"Device '{name}' was asked for and this machine has no CUDA; choose cpu or auto.")
    return device


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """'auto' is bfloat16 where the device multiplies it natively (there it is the fastest plain), else float32."""
    if name == "auto":
        native = device.type == "cuda" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return torch.bfloat16 if native else torch.float32
    if name not in DTYPES:
        raise DraftscopeError(f"dtype = '{name}': choose auto, {', '.join(DTYPES)}.")
    return DTYPES[name]


def pick_device_map(name: str | None, device: str) -> str | None:
    """A device map that accelerate knows, and no device beside it."""
    if name is None:
        return None
    if name not in DEVICE_MAPS:
        raise DraftscopeError(f"device_map = '{name}': choose {', '.join(DEVICE_MAPS)}.")
    if device != "auto":
        raise DraftscopeError(f"device = '{device}' and device_map = '{name}' exclude each other; give one of them.")
    if find_spec("accelerate") is None:
        raise DraftscopeError(f"device_map = '{name}' needs accelerate; install it with: pip install accelerate.")
    return name
