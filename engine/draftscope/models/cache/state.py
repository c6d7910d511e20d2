"""The cache of a recurrent model: a committed state for each sequence, and open rows that may be folded into it.

Keys and values can be truncated; a state cannot. A forward therefore does not change the committed state but stores how
each of its rows would change it. `keep` folds one path of these rows into the state and drops the rest. Nothing is
computed twice, no snapshot is needed, and the branches of a tree are paths through the same rows, each with its own sum
of decays.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from draftscope.models.cache.slots import SlotCache, SlotTable


@dataclass(frozen=True)
class Rows:
    """How R rows of one layer change its state. `decay` is the sum of `step` over a row and its open ancestors."""

    conv: Tensor  # [B, R, C] inputs of the causal convolution
    drive: Tensor  # [B, R, H, P] fp32: step size times input
    key: Tensor  # [B, R, G, S] fp32: where in the state it goes
    step: Tensor  # [B, R, H] fp32: log of the share of the state that remains after the row
    decay: Tensor  # [B, R, H] fp32

    def followed_by(self, more: Rows) -> Rows:
        """These rows followed by `more`."""
        pairs = zip(vars(self).values(), vars(more).values(), strict=True)
        return Rows(*(torch.cat(pair, 1) for pair in pairs))

    def at(self, rows: Tensor) -> Rows:
        """The rows `rows` [B, R'], in that order."""
        batch = torch.arange(len(rows), device=rows.device)[:, None]
        return Rows(*(tensor[batch, rows] for tensor in vars(self).values()))


class LayerState:
    """One layer's committed state [B, H, P, S] in fp32 and the last inputs of its convolution [B, K - 1, C]."""

    def __init__(self, batch: int, state: tuple[int, ...], window: tuple[int, ...], like: Tensor) -> None:
        self.state = torch.zeros((batch, *state), dtype=torch.float32, device=like.device)
        self.window = torch.zeros((batch, *window), dtype=like.dtype, device=like.device)
        self.rows: Rows | None = None  # the open rows

    @torch.inference_mode()
    def fold(self, rows: Tensor, count: Tensor) -> None:
        """Folds the first `count[b]` of the open rows `rows` [B, R], a path from the root down, into the state."""
        assert self.rows is not None
        path = self.rows.at(rows.clamp(min=0))
        real = torch.arange(rows.shape[1], device=rows.device) < count[:, None]
        last = (count - 1).clamp(min=0)[:, None, None].expand(-1, 1, path.decay.shape[2])
        end = path.decay.gather(1, last)[:, 0] * (count > 0)[:, None]  # [B, H]
        weight = torch.where(real[:, :, None], (end[:, None] - path.decay).exp(), 0.0)
        key = path.key.repeat_interleave(path.drive.shape[2] // path.key.shape[2], 2)
        joined = torch.einsum("brh,brhp,brhs->bhps", weight, path.drive, key)
        self.state = self.state * end.exp()[:, :, None, None] + joined
        size = self.window.shape[1]
        last_inputs = count[:, None] + torch.arange(size, device=count.device)
        batch = torch.arange(len(count), device=count.device)[:, None]
        self.window = torch.cat([self.window, path.conv], 1)[batch, last_inputs]
        self.rows = None


class StateCache(SlotCache):
    """Has the interface of `SlotCache`; its size does not depend on the text, so it is never full."""

    def __init__(self, layers: list[LayerState], batch: int, device: torch.device) -> None:
        self.table = SlotTable(batch, sys.maxsize, device)
        self.states = layers
        self.side = []
        Cache.__init__(self, layers=[])

    @property
    def sequence_bytes(self) -> int:
        """Bytes of one sequence's states in all layers."""
        tensors = (tensor for layer in self.states for tensor in (layer.state, layer.window))
        return sum(tensor[0].numel() * tensor.element_size() for tensor in tensors)

    def keep_first(self, count: Tensor, bound: int) -> None:
        rows = torch.arange(self.table.open, device=count.device).expand(len(count), -1)
        self._fold(rows, count)
        self.table.commit(self.table.length + count, bound)

    def keep(self, rows: Tensor, count: Tensor, bound: int) -> None:
        self._fold(rows, count)
        self.table.commit(self.table.length + count, bound)

    def truncate(self, length: Tensor, bound: int) -> None:
        """Drops all open rows, and either none or all of the committed ones. ValueError for a length in between."""
        if not bool((length == 0).all()):
            if not torch.equal(length, self.table.length):
                raise ValueError(
                    f"a recurrent state of {self.table.length.tolist()} tokens cannot be cut to {length.tolist()}"
                )
        else:
            for layer in self.states:
                layer.state = torch.zeros_like(layer.state)
                layer.window = torch.zeros_like(layer.window)
        self.table.commit(length, bound)

    def select_rows(self, sequences: Tensor) -> None:
        self.table.select_rows(sequences)
        for layer in self.states:
            layer.state, layer.window = layer.state[sequences], layer.window[sequences]

    def _fold(self, rows: Tensor, count: Tensor) -> None:
        for layer in self.states if self.table.open and rows.shape[1] else ():
            layer.fold(rows, count)
