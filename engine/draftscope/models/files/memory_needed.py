"""The memory a model needs and the memory that is free, checked before anything is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import psutil
import torch
from safetensors import safe_open

from draftscope.base.errors import DraftscopeError
from draftscope.models.cache.layers import Shape, shapes

STORED = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I64": 8, "I32": 4, "I16": 2, "I8": 1}
FLOATS = ("F64", "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2")  # these are converted to the requested dtype
STATEFUL = ("mamba2",)  # model types whose cache is a state of constant size
CONTEXT = 2048  # tokens of cache that are included when a model is loaded
MIN_CHECKED = 1 << 28  # bytes; smaller caches are not checked


def stored_in(files: list[Path]) -> Counter[str]:
    """The number of values by stored dtype, from the headers of safetensors files, which are checked against the files'
    sizes. Raises SafetensorError or OSError for files that claim something else than they hold."""
    values: Counter[str] = Counter()
    for path in files:
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 (the file is no mapping)
                part = file.get_slice(name)
                values[part.get_dtype()] += prod(part.get_shape())
    return values


def weight_bytes(stored: Mapping[str, int], dtype: torch.dtype, quantized: bool) -> int:
    """Bytes of the loaded weights: floats in `dtype`, or everything as stored if the model is quantised."""
    return sum(
        count * (dtype.itemsize if kind in FLOATS and not quantized else STORED.get(kind, 1))
        for kind, count in stored.items()
    )


def slot_bytes(config: Any, dtype: torch.dtype) -> int:
    """Bytes of one token in the cache of a model with this text config: keys and values of all layers."""
    if config.model_type in STATEFUL:
        return 0
    return bytes_of(shapes(config), dtype)


def bytes_of(layers: Iterable[Shape | None], dtype: torch.dtype) -> int:
    """The same of layers that write these shapes."""
    return 2 * dtype.itemsize * sum(heads * width for heads, width in filter(None, layers))


def free_bytes(device: torch.device) -> int:
    """Bytes that are free on a device now, those included that torch keeps for itself."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    free: int = psutil.virtual_memory().available
    return min(free, _free_in_container() or free)


def _free_in_container() -> int | None:
    """Bytes that a container's memory limit leaves free (cgroup v2)."""
    root = Path("/sys/fs/cgroup")
    try:
        limit = int((root / "memory.max").read_text())
        used = next(int(line.split()[1]) for line in (root / "memory.stat").open() if line.startswith("anon "))
    except (OSError, ValueError, StopIteration):
        return None
    return limit - used


def refuse_weights(name: str, weights: int, cache: int, devices: list[torch.device], what: str) -> None:
    """Raises DraftscopeError if weights and a cache of `CONTEXT` tokens do not fit on `devices` together."""
    free = sum(map(free_bytes, devices))
    if weights + cache <= free:
        return
    raise DraftscopeError(
        f"'{name}' needs {_gb(weights)} for its weights ({what}) and {_gb(cache)} for a cache of {CONTEXT:,} tokens, "
        f"but {_places(devices)} has {_gb(free)} free; choose a smaller or quantised model, --dtype bfloat16, or "
        "--device-map auto to spread it over several devices."
    )


def fits(needed: int, device: torch.device) -> bool:
    """Whether a cache of so many bytes fits, or is too small to be checked."""
    return needed < MIN_CHECKED or needed <= free_bytes(device)


def refuse_cache(name: str, batch: int, capacity: int, per_slot: int, device: torch.device) -> None:
    """Raises DraftscopeError if a cache of `capacity` slots for each of `batch` sequences does not fit in memory."""
    needed = batch * capacity * per_slot
    if fits(needed, device):
        return
    raise DraftscopeError(
        f"'{name}' needs {_gb(needed)} for a cache of {batch} x {capacity:,} tokens, but {_places([device])} has "
        f"{_gb(free_bytes(device))} free; shorten the prompt or request fewer new tokens."
    )


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"


def _places(devices: list[torch.device]) -> str:
    return " and ".join("this machine" if device.type == "cpu" else str(device) for device in devices)
