"""A transformers model as this engine uses it: rows of a draft tree in, logits out, keys and values in a `SlotCache`.

The only module that knows transformers' models. Target and draft go through the same code, so neither baseline nor
drafter has a faster path than the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from draftscope.cache import SlotCache
from draftscope.errors import DraftscopeError


@dataclass
class Counter:
    """How often a model ran and with how many rows: what tests of 'one forward a round' read."""

    widths: list[int] = field(default_factory=list)


class Model:
    """A decoder-only language model in evaluation mode. `name` is what screens show; `digest` names its weights."""

    def __init__(self, network: Any, name: str, digest: str = "") -> None:
        self.network = network.eval()
        self.name = name
        self.digest = digest
        self.counter = Counter()
        config = network.config.get_text_config()
        _refuse_unsupported(config, name)
        self.layers: int = config.num_hidden_layers
        self.hidden: int = config.hidden_size
        self.context: int = getattr(config, "max_position_embeddings", 1 << 30)
        self.vocabulary: int = config.vocab_size
        self.device: torch.device = network.device
        self.dtype: torch.dtype = network.dtype
        self.parameters = sum(p.numel() for p in network.parameters())
        self._additive_mask = config._attn_implementation == "eager"  # eager adds a mask: a bool one is silently wrong

    def cache(self, batch: int, capacity: int) -> SlotCache:
        """An empty cache of `capacity` slots for each of `batch` sequences."""
        return SlotCache(self.layers, batch, capacity, self.device)

    @torch.inference_mode()
    def forward(
        self, cache: SlotCache, tokens: Tensor, offsets: Tensor, sees: Tensor | None = None, last_only: bool = False
    ) -> Tensor:
        """Logits [B, T, V] of `tokens` [B, T], written to the cache as open rows.

        offsets [B, T]: position of each row behind the sequence's permanent length. sees [B, T, O + T] bool: which of
        the O earlier open rows and of these rows each row attends to, itself included; None is a chain. `last_only`
        computes the logits of the last row alone, [B, 1, V].
        """
        self.counter.widths.append(tokens.shape[1])
        table = cache.table
        earlier = table.open
        table.aim(tokens.shape[1])
        return self.network(  # type: ignore[no-any-return]
            input_ids=tokens,
            position_ids=table.length[:, None] + offsets,
            attention_mask=self._mask(cache, tokens.shape[1], earlier, sees),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1 if last_only else 0,
        ).logits

    def read(self, cache: SlotCache, prompts: list[list[int]]) -> None:
        """Prefill: writes every prompt to the cache and makes it permanent. Shorter ones are padded to the right; what
        the padding writes lies behind their length, where the next rows overwrite it."""
        longest = max(len(prompt) for prompt in prompts)
        if longest == 0:
            return
        padded = torch.tensor([prompt + [0] * (longest - len(prompt)) for prompt in prompts], device=self.device)
        offsets = torch.arange(longest, device=self.device).expand(len(prompts), -1)
        self.forward(cache, padded, offsets, last_only=True)
        cache.keep_first(torch.tensor([len(prompt) for prompt in prompts], device=self.device), longest)

    def _mask(self, cache: SlotCache, rows: int, earlier: int, sees: Tensor | None) -> Tensor:
        """[B, 1, T, view] mask: the sequence's permanent slots, then the open rows that `sees` allows."""
        table = cache.table
        batch, device = table.length.shape[0], table.length.device
        if sees is None:
            sees = torch.ones((rows, earlier + rows), dtype=torch.bool, device=device).tril(earlier)
        columns = torch.arange(table.view, device=device)
        mask = (columns < table.length[:, None, None]).repeat(1, rows, 1)
        open_slots = table.length[:, None, None] + torch.arange(earlier + rows, device=device)
        mask.scatter_(2, open_slots.expand(batch, rows, -1), sees.expand(batch, -1, -1))
        mask = mask[:, None]
        if self._additive_mask:
            return torch.zeros(mask.shape, dtype=self.dtype, device=device).masked_fill_(
                ~mask, torch.finfo(self.dtype).min
            )
        return mask


def _refuse_unsupported(config: Any, name: str) -> None:
    """Models whose attention this engine would silently get wrong are refused in a sentence."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None)
    sliding = window is not None and getattr(config, "use_sliding_window", True)
    if kinds != {"full_attention"} or (sliding and not getattr(config, "layer_types", None)):
        found = ", ".join(sorted(kinds - {"full_attention"})) or f"a sliding window of {window}"
        raise DraftscopeError(
            f"'{name}' uses {found}, which tree verification does not cover yet; choose a model with full attention."
        )
