"""A tensor of a GGUF file: mapped from the disk as it is stored, or widened to floats."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from draftscope.models.files.gguf_header import TensorPlace

PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
CHUNK = 1 << 20  # values that are widened at once, which stay in a core's cache


class StoredTensor(NamedTuple):
    """`kind` is ggml's name of its type, such as 'Q4_K'; `shape` has the outermost dimension first; `start` and `size`
    are bytes of the file."""

    path: Path
    kind: str
    shape: tuple[int, ...]
    start: int
    size: int

    @classmethod
    def at(cls, path: Path, place: TensorPlace) -> Self:
        from gguf import GGMLQuantizationType

        return cls(path, GGMLQuantizationType(place.kind).name, place.shape, place.start, place.size)

    @property
    def values(self) -> int:
        return prod(self.shape)

    def raw(self) -> Tensor:
        """The stored bytes, uint8 [rows, bytes of a row], mapped from the file: nothing is read before it is used. They
        must not be written to."""
        return self.mapped()[0]

    def mapped(self) -> tuple[Tensor, Callable[[], None]]:
        """The same, and what lets go of the memory of what was read; it is read again when it is needed."""
        rows = prod(self.shape[:-1])
        if not self.size:
            return torch.empty(rows, 0, dtype=torch.uint8), lambda: None
        with self.path.open("rb") as file:
            before = self.start % mmap.ALLOCATIONGRANULARITY
            memory = mmap.mmap(file.fileno(), before + self.size, access=mmap.ACCESS_COPY, offset=self.start - before)
        data = torch.frombuffer(memory, dtype=torch.uint8, offset=before).view(rows, self.size // max(rows, 1))

        def forget() -> None:
            if hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
                memory.madvise(mmap.MADV_DONTNEED)

        return data, forget

    def widened(self, dtype: torch.dtype) -> Tensor:
        """The values in `dtype`, of the tensor's shape."""
        raw = self.raw()
        if self.kind in PLAIN:
            return raw.view(PLAIN[self.kind]).view(self.shape).to(dtype)
        out = torch.empty(len(raw), self.shape[-1], dtype=dtype)
        rows = max(1, CHUNK // self.shape[-1])
        for start in range(0, len(raw), rows):
            out[start : start + rows] = _dequantized(raw[start : start + rows], self.kind)
        return out.view(self.shape)


def _dequantized(raw: Tensor, kind: str) -> Tensor:
    from gguf import GGMLQuantizationType, quants

    with np.errstate(all="ignore"):
        return torch.from_numpy(quants.dequantize(raw.numpy(), GGMLQuantizationType[kind]))
