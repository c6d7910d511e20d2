"""Block drafters as z-lab (DFlash) and speculators (also DSpark) publish them: `fc`, `hidden_norm`, `layers.*`, `norm`,
DSpark's also `markov_head.*`.

z-lab's `target_layer_ids` number the outputs of layers; speculators' `aux_hidden_state_layer_ids` number the inputs, as
this engine does.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from draftscope.models.heads.block import Block, BlockConfig, DSpark, DSparkConfig
from draftscope.models.heads.formats.head_files import Checkpoint, Published
from draftscope.models.heads.formats.published import (
    built,
    layer_config,
    marks,
    renamed,
    same_hidden,
    selected,
    shape_of,
    speculators_config,
    within,
)
from draftscope.models.heads.head import OwnWeights, SharedWeights

UNSUPPORTED = ("input_embedding_scale", "output_multiplier", "final_logit_softcapping", "causal", "use_swa")


def read_block(saved: Checkpoint, shared: SharedWeights) -> tuple[Block, dict[str, Tensor]]:
    config, tensors = _read(saved, shared)
    return built(Block, config, shared), tensors


def read_dspark(saved: Checkpoint, shared: SharedWeights) -> tuple[DSpark, dict[str, Tensor]]:
    """Its estimate of what will be accepted (`confidence_head`) is not read."""
    if saved.config.get("speculators_model_type") != "dspark":
        raise saved.wrong("is no speculators folder of type 'dspark'; choose a head in that format.")
    if (kind := saved.config.get("markov_head_type", "vanilla")) != "vanilla":
        raise saved.wrong(f"has a Markov head of type '{kind}'; only 'vanilla' is supported, so choose another head.")
    block, tensors = _read(saved, shared)
    config = DSparkConfig(**vars(block), rank=saved.number("markov_rank"))
    return built(DSpark, config, shared), {n: t for n, t in tensors.items() if not n.startswith("confidence_head.")}


def _read(saved: Checkpoint, shared: SharedWeights) -> tuple[BlockConfig, dict[str, Tensor]]:
    speculators = "speculators_model_type" in saved.config
    layer = saved.section("transformer_layer_config") if speculators else saved.config
    ours = saved.config if speculators else saved.section("dflash_config")
    tensors = renamed(saved.tensors, ("layers.", "stack."))
    shape = shape_of(saved, layer, "stack.0.self_attn.", tensors)
    same_hidden(saved, shape.hidden, shared)
    _refuse(saved, ours)
    vocabulary = selected(saved, layer, tensors, shared)
    lm_head = "lm_head.weight" in tensors or vocabulary is not None
    config = BlockConfig(
        shape,
        depth=saved.number("num_hidden_layers", layer),
        size=saved.number("block_size", ours if "block_size" in ours else None),
        mask_token=_mask_token(saved, ours, shared),
        layers=_layers(saved, ours, shared),
        own_weights=OwnWeights("embed_tokens.weight" in tensors, lm_head, vocabulary),
    )
    return config, tensors


def _refuse(saved: Checkpoint, ours: dict[str, Any]) -> None:
    """Refuses variants that are computed differently."""
    if keys := [key for key in UNSUPPORTED if ours.get(key)]:
        raise saved.wrong(
            f"has '{keys[0]}' = {ours[keys[0]]} in its config.json, which is not supported; choose another head."
        )
    if ours.get("sample_from_anchor") or ours.get("projector_type", "dflash") != "dflash":
        raise saved.wrong("is a variant of DFlash or DSpark that is not supported; choose another head.")


def _mask_token(saved: Checkpoint, ours: dict[str, Any], shared: SharedWeights) -> int:
    token = ours.get("mask_token_id")
    if not isinstance(token, int) or not 0 <= token < shared.vocabulary:
        raise saved.wrong(
            f"has the mask token {token}, but this target has {shared.vocabulary:,} tokens; choose a head that was "
            "trained for this target."
        )
    return token


def _layers(saved: Checkpoint, ours: dict[str, Any], shared: SharedWeights) -> tuple[int, ...]:
    """The hidden states it fuses, in this engine's numbering."""
    inputs = saved.indexes("aux_hidden_state_layer_ids", ours)
    outputs = saved.indexes("target_layer_ids", ours)
    if inputs is None and outputs is None:
        raise saved.wrong("does not list the hidden states it reads in its config.json; choose another head.")
    return within(saved, inputs or tuple(layer + 1 for layer in outputs or ()), shared)


def write_block(head: Block, target: str) -> Published:
    ours = head.config
    config = layer_config(ours.shape, head.shared.vocabulary) | {
        "architectures": ["DFlashDraftModel"],
        "base_model": target,
        "num_hidden_layers": ours.depth,
        "num_target_layers": head.shared.layers,
        "block_size": ours.size,
        "draft_vocab_size": head.vocabulary,
        "dflash_config": {"mask_token_id": ours.mask_token, "target_layer_ids": [layer - 1 for layer in ours.layers]},
    }
    return Published(config, renamed(head.state_dict(), ("stack.", "layers.")) | marks(head))


def write_dspark(head: DSpark, target: str) -> Published:
    ours = head.config
    assert isinstance(ours, DSparkConfig)
    config = speculators_config("dspark", ours.size - 1, target) | {
        "architectures": ["Qwen3DSparkModel"],
        "transformer_layer_config": layer_config(ours.shape, head.shared.vocabulary)
        | {"num_hidden_layers": ours.depth},
        "draft_vocab_size": head.vocabulary,
        "block_size": ours.size,
        "mask_token_id": ours.mask_token,
        "aux_hidden_state_layer_ids": list(ours.layers),
        "markov_rank": ours.rank,
        "markov_head_type": "vanilla",
        "enable_confidence_head": False,
        "sample_from_anchor": False,
    }
    return Published(config, renamed(head.state_dict(), ("stack.", "layers.")) | marks(head))
