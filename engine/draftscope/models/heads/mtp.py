"""Multi-token prediction as in DeepSeek-V3 (2412.19437, section 2.2), applied repeatedly to draft a chain.

A projection of [norm(embedding of the next token); norm(hidden state)], one decoder layer, and the target's output
weights. The layer's normed output is the hidden state of the next step, just as the first one is the target's normed
output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from draftscope.models.heads.head import SHARES_ALL, RecurrentHead, SharedWeights
from draftscope.models.heads.layer import Angles, DecoderLayer, HeadShape
from draftscope.models.heads.step import StepParts


@dataclass(frozen=True)
class MtpConfig:
    """The shape of the decoder layer; embedding and output weights are the target's."""

    shape: HeadShape


class Mtp(RecurrentHead):
    """Reads the output of the target's final norm. Modules have DeepSeek's names."""

    def __init__(self, config: MtpConfig, shared: SharedWeights) -> None:
        super().__init__(shared, SHARES_ALL, config.shape, (shared.layers,))
        self.config = config
        shape = config.shape
        self.enorm = nn.RMSNorm(shape.hidden, shape.eps)
        self.hnorm = nn.RMSNorm(shape.hidden, shape.eps)
        self.eh_proj = nn.Linear(2 * shape.hidden, shape.hidden, bias=False)
        self.midlayer = DecoderLayer(shape)
        self.norm = nn.RMSNorm(shape.hidden, shape.eps)

    def parts(self) -> StepParts:
        layer = self.midlayer
        assert isinstance(layer.input_layernorm, nn.RMSNorm)
        return StepParts(
            embedded_norm=self.enorm,
            features_norm=self.hnorm,
            fusion=self.eh_proj,
            attention_norm=layer.input_layernorm,
            attention=layer.self_attn,
            mlp_norm=layer.post_attention_layernorm,
            mlp=layer.mlp,
            last_norm=self.norm,
            output=self.output,
            normed_next=True,
        )

    def logits(self, features: Tensor) -> Tensor:
        return self.project(features)

    def _advance(self, embeds: Tensor, features: Tensor, angles: Angles, mask: Tensor | None, cache: Any) -> Tensor:
        rows = self.eh_proj(torch.cat([self.enorm(embeds.to(features.dtype)), self.hnorm(features)], -1))
        return self.norm(self.midlayer(rows, angles, mask, cache))  # type: ignore[no-any-return]
