"""DFlash (2602.06036) and DSpark (2607.05147): draft a whole block of tokens in one forward.

The block is the last committed token followed by mask tokens. In every layer its rows attend to each other, in both
directions, and to keys and values computed from the target's fused features of the text before it, which stay in the
cache. Row k's logits are about token k of the block itself. DSpark adds a bias that depends on the token drafted before
it, by a low-rank table: its tokens are drawn one after the other, at the cost of two small products each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from draftscope.models.cache.slots import SlotCache
from draftscope.models.heads.head import SHARES_ALL, Head, OwnWeights, SharedWeights
from draftscope.models.heads.layer import DecoderLayer, HeadShape, Rotary
from draftscope.models.native.linear import linear


@dataclass(frozen=True)
class BlockConfig:
    """`depth` layers over blocks of `size` tokens, the first one given; `layers` are the fused hidden states."""

    shape: HeadShape
    depth: int
    size: int
    mask_token: int
    layers: tuple[int, ...]
    own_weights: OwnWeights = SHARES_ALL


class Block(Head):
    """Drafts up to `config.size` - 1 tokens. Here a feature is not paired with the next token."""

    def __init__(self, config: BlockConfig, shared: SharedWeights) -> None:
        super().__init__(shared, config.own_weights, config.shape.hidden, config.layers, config.depth)
        self.config = config
        shape = config.shape
        self.fc = nn.Linear(len(config.layers) * shared.hidden, shape.hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(shape.hidden, shape.eps)
        self.stack = nn.ModuleList(DecoderLayer(shape, causal=False) for _ in range(config.depth))
        self.norm = nn.RMSNorm(shape.hidden, shape.eps)
        self._rotary = Rotary(shape)

    def fuse(self, states: Tensor) -> Tensor:
        """The target's hidden states [B, C, len(layers) x H] -> context rows [B, C, hidden] for `forward`."""
        return self.hidden_norm(self.fc(states))  # type: ignore[no-any-return]

    def tokens(self, last: Tensor, count: int) -> Tensor:
        """The block [B, 1 + count] that drafts `count` tokens: `last` [B], then mask tokens."""
        masks = last.new_full((len(last), count), self.config.mask_token)
        return torch.cat([last[:, None], masks], 1)

    def forward(
        self,
        tokens: Tensor,
        context: Tensor,
        position_ids: Tensor,
        mask: Tensor | None = None,
        cache: SlotCache | None = None,
    ) -> Tensor:
        """The block's hidden states [B, N, hidden], for `project`; those of the first token, which is given, predict
        nothing.

        tokens [B, N]. context [B, C, hidden]: fused features that are not in the cache yet; without a cache those of
        the whole text. position_ids [B, C + N]: the context's, then the block's. `cache` is ready to write these C + N
        rows; the caller keeps the first C. `mask` [B, 1, N, columns] bool: what each row of the block attends to, in
        the cache's view or in the C + N rows. None attends to everything, for sequences of equal length.
        """
        rows = self.embed(tokens).to(context.dtype)
        angles = self._rotary(position_ids, context.dtype)
        stores = [None] * self.depth if cache is None else cache.layers
        for layer, store in zip(self.stack, stores, strict=True):
            rows = layer(rows, angles, mask, store, context)
        return self.norm(rows)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class DSparkConfig(BlockConfig):
    """`rank`: the width of the table."""

    rank: int = 256


class MarkovHead(nn.Module):
    """The table: a row of `rank` numbers for each of the target's tokens, and one for each token that is drafted.

    Modules have the published names. It adds nothing at first.
    """

    def __init__(self, read: int, drafted: int, rank: int) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(read, rank)
        self.markov_w2 = nn.Linear(rank, drafted, bias=False)
        nn.init.zeros_(self.markov_w2.weight)


class DSpark(Block):
    """Drafts up to `config.size` - 1 tokens."""

    def __init__(self, config: DSparkConfig, shared: SharedWeights) -> None:
        super().__init__(config, shared)
        self.markov_head = MarkovHead(shared.vocabulary, self.vocabulary, config.rank)

    def read(self, before: Tensor) -> Tensor:
        """Tokens [...] of the target's vocabulary -> [..., rank], for `bias`."""
        return self.markov_head.markov_w1(before)  # type: ignore[no-any-return]

    def bias(self, read: Tensor) -> Tensor:
        """[..., rank] -> [..., D]: what the token before adds to the logits."""
        return linear(read, self.markov_head.markov_w2.weight, exact=True)
