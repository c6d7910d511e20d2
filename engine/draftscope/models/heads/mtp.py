"""Multi-token prediction as in DeepSeek-V3 (2412.19437, section 2.2), applied repeatedly to draft a chain.

A projection of [norm(embedding of the next token); norm(hidden state)], one decoder layer, and the target's output
weights. The layer's normed output is the hidden state of the next step, just as the first one is the target's normed
output.

Files are those of speculators: `mtp_layers.0.*`, a dense layer in its own checkpoint. MTP layers inside a target's
checkpoint are not supported. They are not Llama layers: DeepSeek-V3's has latent attention and experts, Qwen's has
gated attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from draftscope.models.heads.head import SHARES_ALL, RecurrentHead, SharedWeights
from draftscope.models.heads.head_files import Checkpoint, Published
from draftscope.models.heads.layer import Angles, DecoderLayer, HeadShape
from draftscope.models.heads.published import (
    built,
    layer_config,
    renamed,
    same_hidden,
    shape_of,
    speculators_config,
)
from draftscope.models.heads.step import StepParts

NAMES = (
    ("mtp_layers.0.token_layernorm.", "enorm."),
    ("mtp_layers.0.hidden_layernorm.", "hnorm."),
    ("mtp_layers.0.input_proj.", "eh_proj."),
    ("mtp_layers.0.final_layernorm.", "norm."),
    ("mtp_layers.0.", "midlayer."),
)
TOKENS = 3  # the draft length that the file recommends; the layer can be applied any number of times


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


def read_mtp(saved: Checkpoint, shared: SharedWeights) -> tuple[Mtp, dict[str, Tensor]]:
    if "speculators_model_type" not in saved.config:
        raise saved.wrong(
            "is not a speculators folder; MTP layers inside a target's checkpoint are not supported, choose another "
            "head."
        )
    if saved.config.get("num_nextn_predict_layers", 1) != 1:
        raise saved.wrong(
            f"has {saved.config['num_nextn_predict_layers']} layers; only MTP heads of one layer are supported."
        )
    tensors = renamed(saved.tensors, *NAMES)
    shape = shape_of(saved, saved.section("transformer_layer_config"), "midlayer.self_attn.", tensors)
    same_hidden(saved, shape.hidden, shared)
    return built(Mtp, MtpConfig(shape), shared), tensors


def write_mtp(head: Mtp, target: str) -> Published:
    config = speculators_config("mtp", TOKENS, target) | {
        "architectures": ["MTPDraftModel"],
        "num_nextn_predict_layers": 1,
        "transformer_layer_config": layer_config(head.config.shape, head.shared.vocabulary),
    }
    return Published(config, renamed(head.state_dict(), *((ours, theirs) for theirs, ours in NAMES)))
