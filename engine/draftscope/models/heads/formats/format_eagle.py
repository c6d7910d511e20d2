"""EAGLE-1 and EAGLE-3 as SafeAILab and speculators publish them.

EAGLE-3: `midlayer.*` or `layers.0.*`, `fc`, `norm`, `lm_head`, `d2t`, `t2d`, and `embed_tokens` unless it is the
target's. Its hidden states are numbered in two ways: `eagle_aux_hidden_state_layer_ids` numbers the inputs of layers,
as this engine does; the same name inside `eagle_config` numbers their outputs (SGLang, ModelOpt).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from draftscope.models.heads.eagle import Eagle1, Eagle1Config, Eagle3, Eagle3Config, default_layers
from draftscope.models.heads.formats.head_files import Checkpoint, Published
from draftscope.models.heads.formats.published import (
    built,
    layer_config,
    marks,
    renamed,
    same_hidden,
    selected,
    shape_of,
    within,
)
from draftscope.models.heads.head import OwnWeights, SharedWeights

ATTENTION = "midlayer.self_attn."
NAMES = (("model.layers.0.", "midlayer."), ("model.", ""), ("layers.0.", "midlayer."))
AUX = "eagle_aux_hidden_state_layer_ids"


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
    nested = saved.config.get("eagle_config") or {}
    tensors = renamed(saved.tensors, *NAMES)
    shape = shape_of(saved, layer, ATTENTION, tensors)
    same_hidden(saved, saved.config.get("target_hidden_size") or shape.hidden, shared)
    _refuse(saved, layer, nested)
    vocabulary = selected(saved, layer, tensors, shared)
    narrower = shape.hidden != shared.hidden
    own_weights = OwnWeights(
        embedding="embed_tokens.weight" in tensors or narrower,
        lm_head="lm_head.weight" in tensors or narrower or vocabulary is not None,
        vocabulary=vocabulary,
    )
    flags = {key: bool(nested.get(key, saved.config.get(key))) for key in ("norm_before_fc", "fc_norm", "norm_output")}
    before = bool(saved.config.get("norm_before_residual"))
    config = Eagle3Config(shape, _layers(saved, nested, shared), own_weights, norm_before_residual=before, **flags)
    return built(Eagle3, config, shared), tensors


def _refuse(saved: Checkpoint, layer: dict[str, Any], nested: dict[str, Any]) -> None:
    if layer.get("num_hidden_layers", 1) != 1:
        raise saved.wrong(f"has {layer['num_hidden_layers']} layers; only EAGLE-3 heads of one layer are supported.")
    if nested.get("use_aux_hidden_state") is False:
        raise saved.wrong("does not read fused hidden states ('use_aux_hidden_state': false); choose another head.")
    if "speculators_model_type" in saved.config and "norm_before_residual" not in saved.config:
        raise saved.wrong(
            "has no 'norm_before_residual' in its config.json, and libraries differ in their default; add it."
        )


def _layers(saved: Checkpoint, nested: dict[str, Any], shared: SharedWeights) -> tuple[int, ...]:
    """The hidden states it fuses, in this engine's numbering."""
    inputs, outputs = saved.indexes(AUX), saved.indexes(AUX, nested)
    if inputs is None:
        inputs = default_layers(shared.layers) if outputs is None else tuple(layer + 1 for layer in outputs)
    return within(saved, inputs, shared)


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
    if ours.layers != default_layers(head.shared.layers):  # the default is the same in every engine, the key is not
        config[AUX] = list(ours.layers)
    return Published(config, head.state_dict() | marks(head))
