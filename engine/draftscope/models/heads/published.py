"""Shared parts of the published formats: the configuration of a decoder layer, and the names of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig

from draftscope.models.heads.head import Head, SharedWeights
from draftscope.models.heads.head_files import Checkpoint
from draftscope.models.heads.layer import HeadShape

LLAMA_LIKE = ("llama", "qwen2", "qwen3")  # the same layer except for biases and norms, which the weights show
ROPE = ("default", "linear", "llama3", "yarn")  # rotary angles that depend only on the position
UNUSED = ("rotary_emb.", "verifier_lm_head.", "verifier_norm.", "t2d")  # in checkpoints, but not read


def shape_of(saved: Checkpoint, layer: dict[str, Any], attention: str, tensors: dict[str, Tensor]) -> HeadShape:
    """The layer that a configuration describes. It has the biases and norms that `tensors` contains for its attention,
    under names that start with `attention`."""
    _refuse_unknown(saved, layer)
    hidden, heads = saved.number("hidden_size", layer), saved.number("num_attention_heads", layer)
    try:
        llama = LlamaConfig.from_dict(layer)
    except (ValueError, KeyError, TypeError) as error:
        raise saved.wrong(f"has an invalid config.json ({error}); choose another head.") from None
    rope = dict(llama.rope_parameters)
    if rope.get("rope_type") not in ROPE or rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise saved.wrong(f"has the rotary embedding {rope}, which is not supported; choose another head.")
    return HeadShape(
        hidden=hidden,
        heads=heads,
        key_value_heads=llama.num_key_value_heads,
        head_width=llama.head_dim,
        mlp=saved.number("intermediate_size", layer),
        rope=rope,
        positions=llama.max_position_embeddings,
        eps=llama.rms_norm_eps,
        qkv_bias=f"{attention}q_proj.bias" in tensors,
        out_bias=f"{attention}o_proj.bias" in tensors,
        qk_norm=f"{attention}q_norm.weight" in tensors,
    )


def _refuse_unknown(saved: Checkpoint, layer: dict[str, Any]) -> None:
    """Refuses layers that are computed differently: they would load, but draft badly."""
    kind = layer.get("model_type", "llama")
    if kind not in LLAMA_LIKE:
        raise saved.wrong(f"has layers of type '{kind}'; heads support {', '.join(LLAMA_LIKE)}.")
    if layer.get("hidden_act", "silu") != "silu":
        raise saved.wrong(f"has the activation '{layer['hidden_act']}'; heads support only silu.")
    if layer.get("use_sliding_window") or "sliding_attention" in (layer.get("layer_types") or ()):
        raise saved.wrong("has layers with a sliding window, which heads do not support; choose another head.")


def layer_config(shape: HeadShape, vocabulary: int) -> dict[str, Any]:
    """The configuration of a layer, in a form that all versions of transformers read."""
    rope = dict(shape.rope)
    theta = rope.pop("rope_theta")
    return {
        "model_type": "qwen3" if shape.qk_norm else "llama",
        "hidden_size": shape.hidden,
        "num_hidden_layers": 1,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads,
        "head_dim": shape.head_width,
        "intermediate_size": shape.mlp,
        "hidden_act": "silu",
        "rms_norm_eps": shape.eps,
        "rope_theta": theta,
        "rope_scaling": None if rope["rope_type"] == "default" else rope,
        "max_position_embeddings": shape.positions,
        "attention_bias": shape.out_bias,
        "vocab_size": vocabulary,
        "tie_word_embeddings": False,
    }


def speculators_config(kind: str, tokens: int, target: str) -> dict[str, Any]:
    """The part of a speculators config.json that all kinds share; `tokens` is the recommended draft length."""
    method = {"proposal_type": "greedy", "speculative_tokens": tokens, "verifier_accept_k": 1, "accept_tolerance": 0.0}
    return {
        "speculators_model_type": kind,
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [method],
            "verifier": {"name_or_path": target, "architectures": []},
        },
    }


def renamed(tensors: dict[str, Tensor], *prefixes: tuple[str, str]) -> dict[str, Tensor]:
    """The tensors with prefixes replaced, each by the first pair that matches; unused tensors are dropped."""
    used = {name: tensor for name, tensor in tensors.items() if not any(part in name for part in UNUSED)}
    return {_renamed(name, prefixes): tensor for name, tensor in used.items()}


def _renamed(name: str, prefixes: Sequence[tuple[str, str]]) -> str:
    for before, after in prefixes:
        if name.startswith(before):
            return after + name.removeprefix(before)
    return name


def built(head: type[Any], config: Any, shared: SharedWeights) -> Any:
    """A head on the meta device, whose weights are assigned later."""
    with torch.device("meta"):
        return head(config, shared)


def same_hidden(saved: Checkpoint, hidden: int, shared: SharedWeights) -> None:
    """Refuses a head for a target of another hidden size."""
    if hidden != shared.hidden:
        raise saved.wrong(
            f"was trained for a target of hidden size {hidden:,}, but this target's is {shared.hidden:,}; choose a "
            "head that was trained for this target."
        )


def within(saved: Checkpoint, layers: tuple[int, ...], shared: SharedWeights) -> tuple[int, ...]:
    """Refuses hidden states that the target does not have."""
    if any(not 0 <= layer <= shared.layers for layer in layers):
        raise saved.wrong(
            f"reads the hidden states {list(layers)}, but this target has 0 to {shared.layers}; choose a head that was "
            "trained for this target."
        )
    return layers


def selected(saved: Checkpoint, layer: dict[str, Any], tensors: dict[str, Tensor], shared: SharedWeights) -> int | None:
    """The number of the target's tokens that the head drafts, or None for all; `d2t` is then removed from `tensors`.

    `layer` is the decoder layer's configuration, which contains the target's vocabulary size.
    """
    whole = saved.config.get("draft_vocab_size") is None
    width = saved.number("vocab_size", layer) if whole else saved.number("draft_vocab_size")
    offsets = tensors.get("d2t")
    if offsets is None or (width == shared.vocabulary and not offsets.any()):
        tensors.pop("d2t", None)
        if width != shared.vocabulary:
            raise saved.wrong(
                f"drafts {width:,} of the target's {shared.vocabulary:,} tokens but does not contain 'd2t', which says "
                "which ones; choose a head that was trained for this target."
            )
        return None
    tensors["d2t"] = offsets = offsets.long()
    tokens = torch.arange(len(offsets)) + offsets
    inside = len(offsets) == width and bool(((tokens >= 0) & (tokens < shared.vocabulary)).all())
    if not inside or len(set(tokens.tolist())) != width or not _marked(saved, tokens, shared):
        raise saved.wrong(
            f"has an invalid 'd2t' or 't2d' for {width:,} of the target's {shared.vocabulary:,} tokens; choose a head "
            "that was trained for this target."
        )
    return width


def _marked(saved: Checkpoint, tokens: Tensor, shared: SharedWeights) -> bool:
    """Whether `t2d` is missing or marks exactly `tokens`."""
    marked = saved.tensors.get("t2d")
    expected = torch.zeros(shared.vocabulary, dtype=torch.bool).index_fill_(0, tokens, True)
    return marked is None or torch.equal(marked.bool(), expected)


def marks(head: Head) -> dict[str, Tensor]:
    """`t2d` [V] bool, to save beside the head's own `d2t`; nothing if the head drafts the whole vocabulary."""
    if head.d2t is None:
        return {}
    unmarked = torch.zeros(head.shared.vocabulary, dtype=torch.bool)
    return {"t2d": unmarked.index_fill_(0, head.targets.cpu(), True)}
