"""EAGLE: one decoder layer over (feature, next token) pairs, which reads its own features from the second step on.

EAGLE-1 (2401.15077) predicts the target's last feature and applies the target's output weights to it; EAGLE-2
(2406.16858) builds better trees with the same weights. EAGLE-3 (2503.01840) fuses low, middle and high features, is
trained on its own outputs instead of the target's features, and has its own output weights.

Files are those of SafeAILab and speculators. EAGLE-3: `midlayer.*` or `layers.0.*`, `fc`, `norm`, `lm_head`, `d2t`,
`t2d`, and `embed_tokens` unless it is the target's. `layer_ids.py` says how its hidden states are numbered. Without
fused states (`use_aux_hidden_state: false`) it reads the output of the target's final norm, as EAGLE-1 does; vLLM and
SGLang then skip an `fc`, and so does this engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from draftscope.models.heads.head import SHARES_ALL, OwnWeights, RecurrentHead, SharedWeights
from draftscope.models.heads.head_files import Checkpoint, Published
from draftscope.models.heads.layer import Angles, Attention, DecoderLayer, HeadShape, Mlp
from draftscope.models.heads.layer_ids import AUX, layer_ids
from draftscope.models.heads.published import (
    built,
    layer_config,
    marks,
    renamed,
    same_hidden,
    selected,
    shape_of,
    within,
)
from draftscope.models.heads.step import StepParts

OUTPUT = OwnWeights(lm_head=True)
ATTENTION = "midlayer.self_attn."
NAMES = (("model.layers.0.", "midlayer."), ("model.", ""), ("layers.0.", "midlayer."))
FLAGS = ("norm_before_fc", "fc_norm", "norm_output")


@dataclass(frozen=True)
class Eagle1Config:
    """`bias`: whether the projection of (embedding, feature) has one."""

    shape: HeadShape
    own_weights: OwnWeights = SHARES_ALL
    bias: bool = True


class Eagle1(RecurrentHead):
    """Reads the output of the target's final norm and predicts it for the next position."""

    def __init__(self, config: Eagle1Config, shared: SharedWeights) -> None:
        super().__init__(shared, config.own_weights, config.shape, (shared.layers,))
        self.config = config
        hidden = config.shape.hidden
        self.fc = nn.Linear(2 * hidden, hidden, bias=config.bias)
        self.midlayer = DecoderLayer(config.shape, first_norm=False)

    def parts(self) -> StepParts:
        layer = self.midlayer
        return StepParts(
            embedded_norm=None,
            features_norm=None,
            fusion=self.fc,
            attention_norm=None,
            attention=layer.self_attn,
            mlp_norm=layer.post_attention_layernorm,
            mlp=layer.mlp,
            last_norm=None,
            output=self.output,
        )

    def logits(self, features: Tensor) -> Tensor:
        return self.project(features)

    def _advance(self, embeds: Tensor, features: Tensor, angles: Angles, mask: Tensor | None, cache: Any) -> Tensor:
        rows = self.fc(torch.cat([embeds.to(features.dtype), features], -1))
        return self.midlayer(rows, angles, mask, cache)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Eagle3Config:
    """`layers` are the hidden states that it fuses: inputs of layers; the number of layers is what the last one
    returns. None: it reads the output of the final norm. The flags are variants of checkpoints, off in the paper.

    norm_before_residual: the residual starts after the feature's norm (speculators). norm_before_fc, fc_norm: one norm
    over all fused states, or one for each (EAGLE 3.1). norm_output: the feature for the next step is the normed output
    that the output weights read.
    """

    shape: HeadShape
    layers: tuple[int, ...] | None
    own_weights: OwnWeights = OUTPUT
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False


class Eagle3(RecurrentHead):
    """Reads the hidden states `config.layers`; the paper's choice for a target of L layers is `default_layers(L)`."""

    def __init__(self, config: Eagle3Config, shared: SharedWeights) -> None:
        super().__init__(shared, config.own_weights, config.shape, _states(config.layers, shared))
        self.config = config
        shape, states = config.shape, len(self.layers)
        self.input_norm = nn.RMSNorm(states * shared.hidden, shape.eps) if config.norm_before_fc else None
        norms = [nn.RMSNorm(shared.hidden, shape.eps) for _ in range(states)]
        self.fc_norm = nn.ModuleList(norms) if config.fc_norm else None
        fuses = config.layers is not None
        self.fc = nn.Linear(states * shared.hidden, shape.hidden, bias=False) if fuses else None
        self.midlayer = Eagle3Layer(shape, config.norm_before_residual)
        self.norm = nn.RMSNorm(shape.hidden, shape.eps)

    def read_layers(self, layers: tuple[int, ...]) -> None:
        """From now on it fuses these, as many as before: another reading of its config.json."""
        self.layers = _states(layers, self.shared)

    def fuse(self, states: Tensor) -> Tensor:
        if self.input_norm is not None:
            states = self.input_norm(states)
        if self.fc_norm is not None:
            parts = states.chunk(len(self.fc_norm), -1)
            states = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], -1)
        return states if self.fc is None else self.fc(states)

    def parts(self) -> StepParts:
        layer = self.midlayer
        fuses = self.fc is not None and self.input_norm is None and self.shared.hidden == self.config.shape.hidden
        return StepParts(
            embedded_norm=layer.input_layernorm,
            features_norm=layer.hidden_norm,
            fusion=None,
            attention_norm=None,
            attention=layer.self_attn,
            mlp_norm=layer.post_attention_layernorm,
            mlp=layer.mlp,
            last_norm=self.norm,
            output=self.output,
            normed_residual=self.config.norm_before_residual,
            normed_next=self.config.norm_output,
            state_norms=list(self.fc_norm or [None] * len(self.layers)),
            state_fusion=self.fc if fuses else None,
        )

    def logits(self, features: Tensor) -> Tensor:
        return self.project(features if self.config.norm_output else self.norm(features))

    def _advance(self, embeds: Tensor, features: Tensor, angles: Angles, mask: Tensor | None, cache: Any) -> Tensor:
        rows: Tensor = self.midlayer(embeds.to(features.dtype), features, angles, mask, cache)
        return self.norm(rows) if self.config.norm_output else rows


class Eagle3Layer(nn.Module):
    """A decoder layer whose attention reads the concatenated embedding and feature, each after its own norm."""

    def __init__(self, shape: HeadShape, norm_before_residual: bool) -> None:
        super().__init__()
        self._norm_before_residual = norm_before_residual
        self.input_layernorm = nn.RMSNorm(shape.hidden, shape.eps)
        self.hidden_norm = nn.RMSNorm(shape.hidden, shape.eps)
        self.self_attn = Attention(shape, 2 * shape.hidden, causal=True)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, shape.eps)
        self.mlp = Mlp(shape)

    def forward(self, embeds: Tensor, features: Tensor, angles: Angles, mask: Tensor | None, cache: Any) -> Tensor:
        """Embeddings and features [B, T, hidden] -> [B, T, hidden]; the rest are `Attention`'s arguments."""
        normed = self.hidden_norm(features)
        both = torch.cat([self.input_layernorm(embeds), normed], -1)
        residual = normed if self._norm_before_residual else features
        rows = residual + self.self_attn(both, angles, mask, cache)
        return rows + self.mlp(self.post_attention_layernorm(rows))  # type: ignore[no-any-return]


def default_layers(layers: int) -> tuple[int, ...]:
    """The hidden states that EAGLE-3 fuses by default: low, middle and high."""
    return 2, layers // 2, layers - 3


def read_eagle1(saved: Checkpoint, shared: SharedWeights) -> tuple[Eagle1, dict[str, Tensor]]:
    """EAGLE-1; of speculators' variants only the original one without extra norms."""
    speculators = "speculators_model_type" in saved.config
    layer = saved.section("transformer_layer_config") if speculators else saved.config
    tensors = renamed(saved.tensors, *NAMES, ("transformer.", "midlayer."), ("fusion_fc.", "fc."))
    shape = shape_of(saved, layer, ATTENTION, tensors)
    same_hidden(saved, shape.hidden, shared)
    own_weights = OwnWeights("embed_tokens.weight" in tensors, "lm_head.weight" in tensors)
    stated = saved.config.get("fusion_bias" if speculators else "bias", "fc.bias" in tensors)
    return built(Eagle1, Eagle1Config(shape, own_weights, bool(stated)), shared), tensors


def write_eagle1(head: Eagle1, target: str) -> Published:
    config = layer_config(head.config.shape, head.shared.vocabulary)
    config |= {"architectures": ["LlamaForCausalLMEagle"], "bias": head.config.bias, "base_model": target}
    return Published(config, renamed(head.state_dict(), ("midlayer.", "layers.0.")))


def read_eagle3(saved: Checkpoint, shared: SharedWeights) -> tuple[Eagle3, dict[str, Tensor]]:
    speculators = "speculators_model_type" in saved.config
    layer = saved.section("transformer_layer_config") if speculators else saved.config
    nested = saved.optional("eagle_config")
    tensors = renamed(saved.tensors, *NAMES)
    shape = shape_of(saved, layer, ATTENTION, tensors)
    same_hidden(saved, saved.config.get("target_hidden_size") or shape.hidden, shared)
    _refuse(saved, layer)
    vocabulary = selected(saved, layer, tensors, shared)
    layers = _layers(saved, nested, shared)
    if layers is None:
        same_hidden(saved, shape.hidden, shared)
        tensors.pop("fc.weight", None)
    narrower = shape.hidden != shared.hidden
    own_weights = OwnWeights(
        embedding="embed_tokens.weight" in tensors or narrower,
        lm_head="lm_head.weight" in tensors or narrower or vocabulary is not None,
        vocabulary=vocabulary,
    )
    flags = {key: bool(nested.get(key, saved.config.get(key))) for key in FLAGS}
    before = bool(saved.config.get("norm_before_residual"))
    config = Eagle3Config(shape, layers, own_weights, norm_before_residual=before, **flags)
    return built(Eagle3, config, shared), tensors


def _refuse(saved: Checkpoint, layer: dict[str, Any]) -> None:
    if layer.get("num_hidden_layers", 1) != 1:
        raise saved.wrong(f"has {layer['num_hidden_layers']} layers; only EAGLE-3 heads of one layer are supported.")
    if "speculators_model_type" in saved.config and "norm_before_residual" not in saved.config:
        raise saved.wrong(
            "has no 'norm_before_residual' in its config.json, and libraries differ in their default; add it."
        )


def _layers(saved: Checkpoint, nested: dict[str, Any], shared: SharedWeights) -> tuple[int, ...] | None:
    """The hidden states it fuses, as inputs of layers; None if it fuses none."""
    if nested.get("use_aux_hidden_state") is False:
        return None
    ids = layer_ids(saved, shared)
    return within(saved, default_layers(shared.layers) if ids is None else ids.layers, shared)


def _states(layers: tuple[int, ...] | None, shared: SharedWeights) -> tuple[int, ...]:
    """The numbers of hidden states for `Head.layers`, in which what the last layer returns comes after its norm."""
    if layers is None:
        return (shared.layers,)
    return tuple(layer + 1 if layer == shared.layers else layer for layer in layers)


def write_eagle3(head: Eagle3, target: str) -> Published:
    ours = head.config
    config = layer_config(ours.shape, head.shared.vocabulary)
    config |= {
        "architectures": ["LlamaForCausalLMEagle3"],
        "base_model": target,
        "draft_vocab_size": head.vocabulary,
        "target_hidden_size": head.shared.hidden,
        "norm_before_residual": ours.norm_before_residual,
        "norm_before_fc": ours.norm_before_fc,
        "fc_norm": ours.fc_norm,
        "norm_output": ours.norm_output,
    }
    if ours.layers is None:
        config["eagle_config"] = {"use_aux_hidden_state": False}
    elif ours.layers != default_layers(head.shared.layers):  # the default is the same in every engine, the key is not
        config[AUX] = list(ours.layers)
    return Published(config, head.state_dict() | marks(head))
