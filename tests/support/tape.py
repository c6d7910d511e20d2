"""A recorder of forwards for tests on a CPU: every operation and the memory that it filled, played again in place.

A CUDA graph does the same: it repeats operations on fixed addresses, with the numbers of the moment it was recorded.
Like a CUDA graph it refuses an operation whose result Python has to read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from draftscope.models.forward.graphs import Outputs

INDEXED = torch.ops.aten.index.Tensor  # the one operation that reads values or does not, as its indices are


class Tape(TorchDispatchMode):
    """Records while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[Callable[[], Any], list[Tensor | None]]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and to skip that would cost more than most operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _reads(func, args):
            raise RuntimeError(f"{func} reads a value in between")
        named = kwargs or {}
        result = func(*args, **named)
        given = {_memory(tensor) for each in (*args, *named.values()) for tensor in _tensors(each)}
        filled = [None if _memory(each) in given else each for each in _tensors(result)]
        self._calls.append((lambda: func(*args, **named), filled))
        return result

    def play(self) -> None:
        """Every operation again, on the tensors of then; what was new memory then is filled anew."""
        for call, filled in self._calls:
            for memory, value in zip(filled, _tensors(call()), strict=True):
                if memory is not None:
                    memory.copy_(value)


class Recorder:
    """Records on tapes, and counts what was recorded and replayed."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, forward: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], object]]:
        self.recorded += 1
        tape = Tape()
        with tape:
            outputs = forward()

        def replay() -> None:
            self.replayed += 1
            tape.play()

        return outputs, replay


def _reads(func: Any, args: Any) -> bool:
    """Whether Python has to read what this gives: a number, or how large a result is."""
    if func is INDEXED:
        return any(each.dtype in (torch.bool, torch.uint8) for each in args[1] if each is not None)
    return torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags


def _tensors(value: Any) -> list[Tensor]:
    """A tensor, or those of a list; operations nest none."""
    if isinstance(value, Tensor):
        return [value]
    return [each for each in value if isinstance(each, Tensor)] if isinstance(value, list | tuple) else []


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
