"""DFlash (2602.06036): a whole block of tokens drafted in one forward.

The block is the last committed token and then mask tokens. In every layer its rows attend to each other, in both
directions, and to keys and values made of the target's fused features of the text before it: the target's knowledge is
put into the cache instead of being computed again. Row k's logits are the distribution of the block's own token k.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from draftscope.models.cache.slots import SlotCache
from draftscope.models.heads.head import NOTHING, Head, Lender, Own
from draftscope.models.heads.layer import DecoderLayer, Rotary, Shape


@dataclass(frozen=True)
class BlockConfig:
    """`depth` layers over blocks of `size` tokens, the first of them given; `layers` are the hidden states fused."""

    shape: Shape
    depth: int
    size: int
    mask_token: int
    layers: tuple[int, ...]
    own: Own = NOTHING


class Block(Head):
    """Drafts up to `config.size` - 1 tokens. A feature stands at its own position here, not beside its next token."""

    def __init__(self, config: BlockConfig, lender: Lender) -> None:
        super().__init__(lender, config.own, config.shape.hidden, config.layers, config.depth)
        self.config = config
        shape = config.shape
        self.fc = nn.Linear(len(config.layers) * lender.hidden, shape.hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(shape.hidden, shape.eps)
        self.stack = nn.ModuleList(DecoderLayer(shape, causal=False) for _ in range(config.depth))
        self.norm = nn.RMSNorm(shape.hidden, shape.eps)
        self._rotary = Rotary(shape)

    def fuse(self, states: Tensor) -> Tensor:
        """The target's hidden states [B, C, len(layers) x H] -> context rows [B, C, hidden] for `forward`."""
        return self.hidden_norm(self.fc(states))  # type: ignore[no-any-return]

    def tokens(self, last: Tensor, count: int) -> Tensor:
        """The block [B, 1 + count] behind which `count` tokens are asked for: `last` [B], then mask tokens."""
        asked = last.new_full((len(last), count), self.config.mask_token)
        return torch.cat([last[:, None], asked], 1)

    def forward(
        self,
        tokens: Tensor,
        context: Tensor,
        position_ids: Tensor,
        mask: Tensor | None = None,
        cache: SlotCache | None = None,
    ) -> Tensor:
        """Logits [B, N, D] of the block's own tokens; those of its first, which is given, mean nothing.

        tokens [B, N]. context [B, C, hidden]: fused features that the cache lacks, all of the text's without a cache.
        position_ids [B, C + N]: the context's, then the block's. `cache` is aimed at these C + N rows, of which the
        first C are to be kept afterwards. `mask` (B, 1, N, columns) bool: what each row of the block sees of the
        cache's view, or of the C + N rows; None is everything, right where all sequences are equally long.
        """
        rows = self.embed(tokens).to(context.dtype)
        angles = self._rotary(position_ids, context.dtype)
        stores = [None] * self.depth if cache is None else cache.layers
        for layer, store in zip(self.stack, stores, strict=True):
            rows = layer(rows, angles, mask, store, context)
        return self.project(self.norm(rows))
