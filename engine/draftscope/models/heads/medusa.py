"""Medusa (2401.10774): K heads on the target's last hidden state, each guessing one token further ahead.

They know nothing of each other's guesses, so their distributions are for chosen (deterministic) children, not for drawn
ones along a path.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftscope.models.heads.head import NOTHING, Head, Lender


@dataclass(frozen=True)
class MedusaConfig:
    """`heads` K of `blocks` residual blocks each. `shared`: all end in the target's output weights, not in their own
    (vLLM calls it `original_lm_head`). `bias` is the blocks'."""

    heads: int
    blocks: int = 1
    shared: bool = False
    bias: bool = True


class Medusa(Head):
    """Starts as K copies of the target's own output: blocks that add nothing, before its weights."""

    def __init__(self, config: MedusaConfig, lender: Lender) -> None:
        super().__init__(lender, NOTHING, lender.hidden, (lender.layers,), depth=0)
        self.config = config
        heads, hidden = range(config.heads), lender.hidden
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Linear(hidden, hidden, bias=config.bias) for _ in range(config.blocks)) for _ in heads
        )
        for weight in self.blocks.parameters():
            nn.init.zeros_(weight)
        own = not config.shared
        self.lm_heads = nn.ModuleList(nn.Linear(hidden, self.vocabulary, bias=False) for _ in heads if own)
        with torch.no_grad():
            for weight in self.lm_heads.parameters():
                weight.copy_(lender.lm_head)

    def forward(self, states: Tensor) -> Tensor:
        """The target's hidden states [B, T, H] -> logits [B, T, K, V]: entry k of row i is the distribution of token i
        + 2 + k.

        So the row before the pending token, the last one there is, gives distributions for the tokens behind the
        pending one.
        """
        return torch.stack([self._one(k, states) for k in range(self.config.heads)], 2)

    def _one(self, head: int, rows: Tensor) -> Tensor:
        blocks = self.blocks[head]
        assert isinstance(blocks, nn.ModuleList)
        for block in blocks:
            rows = rows + F.silu(block(rows))
        return self.project(rows) if self.config.shared else self.lm_heads[head](rows)
