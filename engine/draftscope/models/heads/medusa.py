"""Medusa (2401.10774): K heads on the target's last hidden state; each predicts one token further ahead.

No head knows what the others predict, so their distributions are used for deterministic (top-k) children, not for
children drawn along a path.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftscope.models.heads.head import SHARES_ALL, Head, SharedWeights


@dataclass(frozen=True)
class MedusaConfig:
    """`heads` K of `blocks` residual blocks each. `shared`: all use the target's output weights instead of their own
    (`original_lm_head` in vLLM). `bias`: whether the blocks have one."""

    heads: int
    blocks: int = 1
    shared: bool = False
    bias: bool = True


class Medusa(Head):
    """Starts as K copies of the target's output: its blocks initially add nothing."""

    def __init__(self, config: MedusaConfig, shared: SharedWeights) -> None:
        super().__init__(shared, SHARES_ALL, shared.hidden, (shared.layers,), depth=0)
        self.config = config
        heads, hidden = range(config.heads), shared.hidden
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Linear(hidden, hidden, bias=config.bias) for _ in range(config.blocks)) for _ in heads
        )
        for weight in self.blocks.parameters():
            nn.init.zeros_(weight)
        outputs = range(0 if config.shared else config.heads)
        self.lm_heads = nn.ModuleList(nn.Linear(hidden, self.vocabulary, bias=False) for _ in outputs)
        with torch.no_grad():
            for weight in self.lm_heads.parameters():
                weight.copy_(shared.lm_head)

    def forward(self, states: Tensor) -> Tensor:
        """The target's hidden states [B, T, H] -> logits [B, T, K, V]; entry k of row i predicts token i + 2 + k.

        The last row is the one before the pending token, so it predicts the tokens after the pending token.
        """
        rows = torch.stack([self._hidden(k, states) for k in range(self.config.heads)], 2)  # [B, T, K, H]
        if self.config.shared:
            return self.project(rows)  # all rows at once, so that the weights are read once
        return torch.stack([head(rows[:, :, k]) for k, head in enumerate(self.lm_heads)], 2)

    def _hidden(self, head: int, rows: Tensor) -> Tensor:
        blocks = self.blocks[head]
        assert isinstance(blocks, nn.ModuleList)
        for block in blocks:
            rows = rows + F.silu(block(rows))
        return rows
