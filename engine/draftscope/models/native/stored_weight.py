"""A weight of which some rows or all lie in memory as in a GGUF file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from draftscope.models.native.available import programs
from draftscope.models.native.places import STORED

CHUNK = 1 << 22  # weights that are widened at once
LANES = 16  # outputs of a panel


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class StoredRows:
    """Rows of blocks: uint8 [outputs, bytes] as they lie in a file, and the name of their type, such as 'Q4_K'.

    `order` gives the network's order of rows, if it is another than the file's. `forget` lets go of what was read of a
    mapped file, which is read again when it is needed.
    """

    kind: str
    data: Tensor
    inputs: int
    order: Callable[[Tensor], Tensor] | None = None
    forget: Callable[[], None] = _nothing

    @property
    def rows(self) -> Tensor:
        """In the network's order: the data, or a copy."""
        return self.data if self.order is None else self.order(self.data)

    @cached_property
    def kept(self) -> Tensor:
        """The rows for the program that reads rows."""
        rows = self.rows
        if self.order is not None:
            self.forget()
        return rows

    @cached_property
    def panels(self) -> Tensor | None:
        """The rows in panels, if this processor multiplies those; they take the place of what was read of the file."""
        if len(self.data) % LANES or not programs().panels:
            return None
        from draftscope.models.native.panels import in_panels

        return in_panels(self.kind, self.rows, self.forget)


Part = StoredRows | Tensor  # a tensor is bfloat16 [outputs, inputs]


class StoredWeight:
    """Parts [outputs, inputs] below each other, as a file mixes them, for compiled products."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)

    @property
    def shape(self) -> tuple[int, int]:
        first = self.parts[0]
        inputs = first.inputs if isinstance(first, StoredRows) else first.shape[1]
        return sum(len(_data(part)) for part in self.parts), inputs

    def __len__(self) -> int:
        return self.shape[0]

    def numel(self) -> int:
        outputs, inputs = self.shape
        return outputs * inputs

    @property
    def nbytes(self) -> int:
        """What a product reads."""
        return sum(_data(part).nbytes for part in self.parts)

    def data_ptr(self) -> int:
        """The address by which compiled products know it."""
        return int(self._table.ctypes.data) | STORED

    @cached_property
    def _table(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The number of parts, and of each the output after it, its program and its address, as `products` reads it."""
        numbers, end = [len(self.parts)], 0
        for part in self.parts:
            whole_panels = end % LANES == 0
            end += len(_data(part))
            numbers += [end, *_program(part, whole_panels)]
        return np.array(numbers, dtype=np.int64)

    def look_up(self, rows: Tensor) -> Tensor:
        """float32 [..., inputs]: some of its rows, of a weight in one part."""
        (part,) = self.parts
        chosen = (part.data if isinstance(part, StoredRows) else part)[rows.reshape(-1)]
        values = dequantized(chosen, part.kind) if isinstance(part, StoredRows) else chosen.float()
        return values.view(*rows.shape, -1)

    @property
    def read(self) -> list[Any]:
        """What must be kept for products, which may be less than what made it."""
        return [self._table, *(_read(part) for part in self.parts)]

    @cached_property
    def wide(self) -> Tensor:
        """In bfloat16, from now on beside the blocks."""
        return self.widened(torch.bfloat16)

    def widened(self, dtype: torch.dtype) -> Tensor:
        """[outputs, inputs] in another dtype."""
        wide, end = torch.empty(self.shape, dtype=dtype), 0
        rows = max(1, CHUNK // self.shape[1])
        for part in self.parts:
            for chunk in (part.rows if isinstance(part, StoredRows) else part).split(rows):
                values = dequantized(chunk, part.kind) if isinstance(part, StoredRows) else chunk
                wide[end : end + len(chunk)] = values
                end += len(chunk)
                if isinstance(part, StoredRows):
                    part.forget()
        return wide


def joined(weights: Sequence[StoredWeight | Tensor]) -> StoredWeight:
    """Weights with the same inputs below each other. Nothing is copied."""
    parts: list[Part] = []
    for weight in weights:
        parts += weight.parts if isinstance(weight, StoredWeight) else [weight]
    return StoredWeight(parts)


def dequantized(blocks: Tensor, kind: str) -> Tensor:
    """uint8 [rows, bytes] -> float32 [rows, inputs]."""
    from gguf import GGMLQuantizationType, quants

    with np.errstate(all="ignore"), warnings.catch_warnings():
        return torch.from_numpy(quants.dequantize(blocks.numpy(), GGMLQuantizationType[kind]))


def _program(part: Part, whole_panels: bool) -> tuple[int, int]:
    """The address of the program for a part, 0 for one that `products` itself has, and the part's address."""
    if not isinstance(part, StoredRows):
        return 0, part.data_ptr()
    from draftscope.models.native.stored_products import program_of

    panels = part.panels if whole_panels else None
    return program_of(part.kind, panels is not None), (part.kept if panels is None else panels).data_ptr()


def _read(part: Part) -> Tensor:
    if not isinstance(part, StoredRows):
        return part
    return part.kept if part.panels is None else part.panels


def _data(part: Part) -> Tensor:
    return part.data if isinstance(part, StoredRows) else part
