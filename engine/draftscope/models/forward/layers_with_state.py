"""Models in which some layers keep a state instead of keys and values: they verify chains, one text at a time.

A state cannot be truncated to the accepted tokens. It is therefore restored to its value before the drafted tokens, and
the accepted tokens are read again as the first rows of the next forward. This is still a single forward: attention and
MLPs process all rows at once; only layers with a state process them in two parts and save their state in between. After
a round that accepted all drafts nothing is read again. The layers are the transformers model's own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, LinearAttentionLayer

from draftscope.models.cache.layers import STATES
from draftscope.models.cache.slots import SlotCache, SlotLayer, SlotTable, Store

SavedState = tuple[dict[int, Tensor | None], dict[int, Tensor | None], dict[int, bool]]


class HybridCache(SlotCache):
    """Slots for attention layers, states for the others. `table` counts the tokens that are in both.

    `again` [B, r] are committed tokens that are not in the cache yet; the next forward reads them first.
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
        self._saved: dict[int, SavedState] = {}  # by layer: the state before the open rows
        self.again = torch.zeros((batch, 0), dtype=torch.long, device=device)
        self._open = self.again  # [B, O] tokens of the open rows, except those that were read again

    @property
    def sequence_bytes(self) -> int:
        """Bytes of one sequence's states, without keys and values."""
        layers = [layer for layer in self.layers if isinstance(layer, LinearAttentionLayer)]
        states = (
            state for layer in layers for state in (*layer.conv_states.values(), *layer.recurrent_states.values())
        )
        return sum(state[0].numel() * state.element_size() for state in states if state is not None)

    def begin_write(self, tokens: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens and offsets [B, T] of the next forward -> [B, r + T], with the tokens to read again in front."""
        if self.table.open == 0:
            self._saved, self._open = {}, self.again[:, :0]
        before = self.again if self.table.open == 0 else self.again[:, :0]
        self._open = torch.cat([self._open, tokens], 1)
        more = torch.arange(before.shape[1], device=offsets.device).expand(len(offsets), -1)
        return torch.cat([before, tokens], 1), torch.cat([more, offsets + self.again.shape[1]], 1)

    def save(self, layer: int) -> None:
        """Saves the current state of a layer, unless it was saved since the last `keep_first`."""
        if layer not in self._saved:
            current = self.layers[layer]
            copies = ({i: None if state is None else state.clone() for i, state in states.items()}
                      for states in (current.conv_states, current.recurrent_states))  # fmt: skip
            self._saved[layer] = (*copies, dict(current.has_previous_state))  # type: ignore[assignment]

    @torch.inference_mode()
    def keep_first(self, count: Tensor, bound: int) -> None:  # noqa: ARG002 - slots hold less than the text
        """Keeps the first `count[b]` open rows. In a batch all counts must be equal to the number of open rows;
        otherwise ValueError."""
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
        raise ValueError("a state can keep chains, but not paths through trees")

    @torch.inference_mode()
    def truncate(self, length: Tensor, bound: int) -> None:
        """Drops all open rows, and either none or all of the committed ones. ValueError for a length in between."""
        if bool((length == 0).all()):
            self.reset()
            self.again, self._open = self.again[:, :0], self._open[:, :0]
            self.table.commit(length, 0, even=True)
            return
        if not torch.equal(length, self.table.length + self.again.shape[1]):
            raise ValueError(f"a state cannot be truncated to {length.tolist()} tokens")
        if self.table.open:
            self.keep_first(torch.zeros_like(length), bound)

    def _restore(self) -> None:
        for index, (conv, recurrent, before) in self._saved.items():
            layer = self.layers[index]
            layer.conv_states = _restored(conv, layer.conv_states)
            layer.recurrent_states = _restored(recurrent, layer.recurrent_states)
            layer.has_previous_state = dict(before)


def _restored(saved: dict[int, Tensor | None], now: dict[int, Tensor | None]) -> dict[int, Tensor | None]:
    """The saved states; zeros for a state that did not exist yet when it was saved."""
    return {i: torch.zeros_like(new) if new is not None and saved[i] is None else saved[i] for i, new in now.items()}


class Hybrid:
    """Called by `Model.forward` like a transformers model; its layers with a state process the rows in two parts.

    `row_by_row` is for layers that can continue a state only by single rows, like Mamba-1's in transformers.
    """

    def __init__(self, network: Any) -> None:
        self._network = network
        self._kinds: list[str] = list(network.config.get_text_config().layer_types)
        self.row_by_row = False
        self._cache: HybridCache | None = None
        self._again = 0  # rows of this forward that are read again
        for module in _with_state(network):
            module.forward = partial(self._in_parts, module.forward, module.layer_idx)

    def cache(self, batch: int, capacity: int, device: torch.device) -> HybridCache:
        return HybridCache(self._kinds, batch, capacity, device)

    def __call__(self, past_key_values: HybridCache, again: int, **given: Any) -> Any:
        """`again`: how many of the first rows are read again."""
        self._cache, self._again = past_key_values, again
        try:
            return self._network(past_key_values=past_key_values, **given)
        finally:
            self._cache = None

    def _in_parts(self, forward: Callable[..., Any], layer: int, *args: Any, **kwargs: Any) -> Any:
        """One layer's forward: the rows that are read again, then saving its state, then the other rows."""
        cache = self._cache
        if cache is None:  # the network was not called through this class
            return forward(*args, **kwargs)
        named = {"hidden_states": args[0], **kwargs} if args else kwargs
        x, rest = named["hidden_states"], args[1:]
        outputs, at = [], 0
        for size in self._sizes(x.shape[1], fresh=not cache.layers[layer].has_previous_state[0]):
            if at == self._again:
                cache.save(layer)
            if size:
                out = forward(x[:, at : at + size], *rest, **{k: v for k, v in named.items() if k != "hidden_states"})
                outputs.append(out[0] if isinstance(out, tuple) else out)
                at += size
        return torch.cat(outputs, 1)

    def _sizes(self, rows: int, fresh: bool) -> list[int]:
        """The number of rows of each part. Many rows at once can start a `fresh` state in any layer."""
        if not self.row_by_row or (fresh and not self._again):
            return [self._again, rows - self._again]
        return [self._again, *[1] * (rows - self._again)] if fresh else [1] * rows


def covers(network: Any) -> bool:
    """Whether some layers are attention and the others keep a state in transformers' own cache."""
    kinds = list(getattr(network.config.get_text_config(), "layer_types", None) or [])
    stateful = [kind for kind in kinds if kind in STATES]
    return 0 < len(stateful) < len(kinds) and len(_with_state(network)) == len(stateful)


def _with_state(network: Any) -> list[Any]:
    """The modules that read and write a state: those with a layer index and a convolution."""
    return [
        module
        for module in network.modules()
        if hasattr(module, "layer_idx") and any(isinstance(child, nn.Conv1d) for child in module.children())
    ]
