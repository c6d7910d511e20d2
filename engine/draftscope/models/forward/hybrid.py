"""Models some of whose layers keep a state instead of keys and values: chains, one text at a time.

A state cannot be cut back to the accepted tokens. So it is put back to where it stood before the drafted ones, and the
accepted tokens are read again as first rows of the next forward, which stays one: attention and MLPs take all rows at
once, and only the layers with a state take them in two parts, marking their state in between. After a round that
accepted everything there is nothing to read again. The layers are the transformers model's own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, LinearAttentionLayer

from draftscope.models.cache.masks import STATES
from draftscope.models.cache.slots import SlotCache, SlotLayer, SlotTable, Store

Mark = tuple[dict[int, Tensor | None], dict[int, Tensor | None], dict[int, bool]]


class HybridCache(SlotCache):
    """Slots for the layers that attend, states for the others. `table` counts what is in both.

    `again` [B, r] are committed tokens that are not in there yet: the next forward reads them first.
    """

    def __init__(self, kinds: list[str], batch: int, capacity: int, device: torch.device) -> None:
        self.table = SlotTable(batch, capacity, device)
        self.side = []
        self._stores = Store(len(kinds)), Store(0)
        layers: list[Any] = [
            LinearAttentionLayer() if kind in STATES else SlotLayer(self.table, self._stores[0], i)
            for i, kind in enumerate(kinds)
        ]
        Cache.__init__(self, layers=layers)
        self._marks: dict[int, Mark] = {}  # by layer: the state in front of the open rows
        self.again = torch.zeros((batch, 0), dtype=torch.long, device=device)
        self._open = self.again  # [B, O] tokens of the open rows, those that were read again left out

    @property
    def sequence_bytes(self) -> int:
        """Memory of one sequence's states; keys and values left out."""
        states = [layer for layer in self.layers if isinstance(layer, LinearAttentionLayer)]
        kept = (each for layer in states for each in (*layer.conv_states.values(), *layer.recurrent_states.values()))
        return sum(each[0].numel() * each.element_size() for each in kept if each is not None)

    def begin_write(self, tokens: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens and offsets [B, T] of the next forward -> the same with what is read again in front, [B, r + T]."""
        if self.table.open == 0:
            self._marks, self._open = {}, self.again[:, :0]
        before = self.again if self.table.open == 0 else self.again[:, :0]
        self._open = torch.cat([self._open, tokens], 1)
        more = torch.arange(before.shape[1], device=offsets.device).expand(len(offsets), -1)
        return torch.cat([before, tokens], 1), torch.cat([more, offsets + self.again.shape[1]], 1)

    def mark(self, layer: int) -> None:
        """Remembers a layer's state as it is now, once between two `keep_first`."""
        if layer not in self._marks:
            own = self.layers[layer]
            copies = ({i: None if each is None else each.clone() for i, each in kept.items()}
                      for kept in (own.conv_states, own.recurrent_states))  # fmt: skip
            self._marks[layer] = (*copies, dict(own.has_previous_state))  # type: ignore[assignment]

    @torch.inference_mode()
    def keep_first(self, count: Tensor, bound: int) -> None:  # noqa: ARG002 - slots hold less than the text
        """Of the open rows all, or the first `count[b]`, of one sequence; ValueError for unequal sequences."""
        if self.table.open == 0 and not self._open.shape[1]:
            return
        kept = count.tolist()
        if min(kept) < max(kept) or (len(kept) > 1 and kept[0] < self._open.shape[1]):
            raise ValueError(f"states of {len(kept)} sequences cannot keep {kept} of {self._open.shape[1]} rows")
        whole = kept[0] == self._open.shape[1]
        if not whole:
            self._restore()
        length = self.table.length + self.again.shape[1] + (kept[0] if whole else 0)
        self.again = self._open[:, : 0 if whole else kept[0]]
        self._open = self.again[:, :0]
        self.table.commit(length, int(length.max()), even=True)

    def keep(self, rows: Tensor, count: Tensor, bound: int) -> None:  # noqa: ARG002
        raise ValueError("a state keeps chains, no paths through trees")

    @torch.inference_mode()
    def truncate(self, length: Tensor, bound: int) -> None:
        """Forgets the open rows; of the committed ones none, or all. ValueError for a length in between."""
        if bool((length == 0).all()):
            self.reset()
            self.again, self._open = self.again[:, :0], self._open[:, :0]
            self.table.commit(length, 0, even=True)
            return
        if not torch.equal(length, self.table.length + self.again.shape[1]):
            raise ValueError(f"a state cannot be cut back to {length.tolist()} tokens")
        if self.table.open:
            self.keep_first(torch.zeros_like(length), bound)

    def _restore(self) -> None:
        for index, (conv, recurrent, before) in self._marks.items():
            layer = self.layers[index]
            layer.conv_states = _put_back(conv, layer.conv_states)
            layer.recurrent_states = _put_back(recurrent, layer.recurrent_states)
            layer.has_previous_state = dict(before)


def _put_back(marked: dict[int, Tensor | None], now: dict[int, Tensor | None]) -> dict[int, Tensor | None]:
    """What was marked; zeros where there was nothing yet."""
    return {i: torch.zeros_like(own) if own is not None and marked[i] is None else marked[i] for i, own in now.items()}


class Hybrid:
    """Called as the transformers model is called by `Model.forward`; its layers with a state read in two parts.

    `row_by_row`: for layers that continue a state by single rows only, as Mamba-1's do in transformers.
    """

    def __init__(self, network: Any) -> None:
        self._network = network
        self._kinds: list[str] = list(network.config.get_text_config().layer_types)
        self.row_by_row = False
        self._cache: HybridCache | None = None
        self._again = 0  # rows of this forward that are read again
        for module in _with_state(network):
            module.forward = partial(self._by_parts, module.forward, module.layer_idx)

    def cache(self, batch: int, capacity: int, device: torch.device) -> HybridCache:
        return HybridCache(self._kinds, batch, capacity, device)

    def __call__(self, past_key_values: HybridCache, again: int, **given: Any) -> Any:
        """`again`: how many of the rows are read again, in front of the others."""
        self._cache, self._again = past_key_values, again
        try:
            return self._network(past_key_values=past_key_values, **given)
        finally:
            self._cache = None

    def _by_parts(self, right: Callable[..., Any], layer: int, *args: Any, **kwargs: Any) -> Any:
        """One layer's forward: rows that are read again, its state marked, the other rows."""
        cache = self._cache
        if cache is None:  # the network was called by somebody else
            return right(*args, **kwargs)
        named = {"hidden_states": args[0], **kwargs} if args else kwargs
        x, rest = named["hidden_states"], args[1:]
        found, at = [], 0
        for size in self._sizes(x.shape[1], fresh=not cache.layers[layer].has_previous_state[0]):
            if at == self._again:
                cache.mark(layer)
            if size:
                out = right(x[:, at : at + size], *rest, **{k: v for k, v in named.items() if k != "hidden_states"})
                found.append(out[0] if isinstance(out, tuple) else out)
                at += size
        return torch.cat(found, 1)

    def _sizes(self, rows: int, fresh: bool) -> list[int]:
        """Rows of each part; a `fresh` state can be begun by many rows at once, whoever continues it."""
        if not self.row_by_row or (fresh and not self._again):
            return [self._again, rows - self._again]
        return [self._again, *[1] * (rows - self._again)] if fresh else [1] * rows


def covers(network: Any) -> bool:
    """Do some layers attend and the others keep a state in transformers' own cache?"""
    kinds = list(getattr(network.config.get_text_config(), "layer_types", None) or [])
    stateful = [kind for kind in kinds if kind in STATES]
    return 0 < len(stateful) < len(kinds) and len(_with_state(network)) == len(stateful)


def _with_state(network: Any) -> list[Any]:
    """The modules that read and write a state: those that know their layer and have a convolution of their own."""
    return [
        module
        for module in network.modules()
        if hasattr(module, "layer_idx") and any(isinstance(child, nn.Conv1d) for child in module.children())
    ]
