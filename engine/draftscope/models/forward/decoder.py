"""A transformers model as the compiled forward reads it: its weights by what they do, and how its layers differ.

Covered are Llama, Mistral, Qwen2 and Qwen3, Phi-3 (products that are joined already), Gemma 3 (norms of the products,
angles of its own for layers with a window), GPT-NeoX and Phi (LayerNorm, an MLP without a gate, attention and MLP side
by side). Large weights are shared with the model, whose separate ones become views; small ones are copies in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from draftscope.models.cache.layers import is_mixed
from draftscope.models.cache.masks import Reach, reaches
from draftscope.models.forward.lean import SHAPED, STATIC_ROPE, joined
from draftscope.models.forward.stored import exact, stored_of
from draftscope.models.native import places as at
from draftscope.models.native.stored_weight import StoredWeight
from draftscope.models.native.stored_weight import joined as below

Weight = Tensor | StoredWeight  # [outputs, inputs], bfloat16 or as it lies in a file
ACTIVATIONS = {"silu": at.SILU, "gelu_pytorch_tanh": at.GELU_TANH, "gelu_new": at.GELU_TANH, "gelu": at.GELU}
NOT_COMPUTED = ("attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention", "qk_layernorm")


class LayerWeights(NamedTuple):
    """The weights of one decoder layer in the order of `native.places`. D columns a head, H heads, K of keys."""

    norm: Tensor
    qkv: Weight  # [(H + 2 K) D, hidden]
    out: Weight
    mlp_norm: Tensor
    up: Weight  # [2 M, hidden], gate and up, or [M, hidden]
    down: Weight
    qkv_bias: Tensor | None = None
    query_norm: Tensor | None = None  # [D], of every head
    key_norm: Tensor | None = None
    norm_bias: Tensor | None = None
    mlp_norm_bias: Tensor | None = None
    out_bias: Tensor | None = None
    up_bias: Tensor | None = None
    down_bias: Tensor | None = None
    out_norm: Tensor | None = None  # of the product, before it is added to the residual stream
    down_norm: Tensor | None = None


@dataclass(frozen=True)
class Decoder:
    """A whole model."""

    layers: tuple[LayerWeights, ...]
    types: tuple[str, ...]  # the layers' types by kind, as in a dict of masks
    kinds: tuple[int, ...]  # of each layer
    windows: tuple[int, ...]  # of each kind: positions that a row attends to; 0: all
    embed: nn.Module  # called as a module, because an emulated size is a hook on it
    angles: Callable[[int], tuple[Tensor, Tensor]]  # positions -> cos and sin [kinds, positions, D] in float32
    norm: Tensor
    norm_bias: Tensor | None
    head: Weight  # [V, hidden]
    head_bias: Tensor | None
    heads: int
    kv_heads: int
    width: int  # D
    scale: float  # of attention scores
    eps: float
    activation: int
    gated: bool
    parallel: bool  # attention and MLP read the same residual stream
    interleaved: bool  # the product of each head's query is followed by those of its key and value

    def first(self, count: int) -> Decoder:
        """With only the first `count` layers."""
        return replace(self, layers=self.layers[:count], kinds=self.kinds[:count])


def covers(network: Any) -> bool:
    """Whether the compiled forward computes it: one of the architectures above with full or sliding sdpa attention,
    static rotary angles, and bfloat16 weights on a CPU whose rows are whole blocks."""
    if type(network).__name__ not in READERS or is_mixed(network.config):
        return False
    config = network.config
    sizes = [config.hidden_size, config.intermediate_size, _width(_attention(network))]
    return (
        network.device.type == "cpu"
        and not getattr(network, "hf_device_map", None)
        and getattr(config, "quantization_config", None) is None
        and config._attn_implementation == "sdpa"
        and _activation(config) in ACTIVATIONS
        and not any(getattr(config, name, None) for name in NOT_COMPUTED)
        and all(reach.kind in ("full", "sliding") for reach in _reaches(network).values())
        and all(rope["rope_type"] in STATIC_ROPE for rope in _ropes(config).values())
        and all(parameter.dtype == torch.bfloat16 and parameter.is_contiguous() for parameter in network.parameters())
        and all(size % at.BLOCK == 0 for size in sizes)
    )


def described(network: Any) -> Decoder:
    """A network that is covered."""
    return READERS[type(network).__name__](network)


def _activation(config: Any) -> str:
    return str(getattr(config, "hidden_activation", None) or config.hidden_act)


def _attention(network: Any) -> Any:
    layer = network.base_model.layers[0]
    return layer.attention if hasattr(layer, "attention") else layer.self_attn


def _width(attention: Any) -> int:
    """Columns of a head."""
    return int(attention.head_size if hasattr(attention, "head_size") else attention.head_dim)


def _reaches(network: Any) -> dict[str, Reach]:
    """How far back each type of layer attends."""
    reach = reaches(network.config, type(network).__name__)
    return dict.fromkeys(sorted(set(_types(network.config))), reach) if isinstance(reach, Reach) else reach


def _types(config: Any) -> list[str]:
    """The type of each layer; of models without types the empty one."""
    return getattr(config, "layer_types", None) or [""] * config.num_hidden_layers


def _ropes(config: Any) -> dict[str, Any]:
    """The rotary parameters by type of layer; of models with the same in all layers by the empty one."""
    parameters = config.rope_parameters
    return {"": parameters} if "rope_type" in parameters else {kind: parameters[kind] for kind in set(_types(config))}


def _decoder(
    network: Any,
    layers: list[LayerWeights],
    norm: nn.Module,
    gated: bool = True,
    parallel: bool = False,
    interleaved: bool = False,
) -> Decoder:
    config, attention, head = network.config, _attention(network), network.get_output_embeddings()
    reach = _reaches(network)
    types = tuple(reach)
    heads = config.num_attention_heads
    return Decoder(
        layers=tuple(layers),
        types=types,
        kinds=tuple(types.index(kind) for kind in _types(config)),
        windows=tuple(span.size for span in reach.values()),
        embed=network.get_input_embeddings(),
        angles=_angles(network, types),
        norm=_norm(norm),
        norm_bias=_bias(norm),
        head=_weight(head),
        head_bias=_bias(head),
        heads=heads,
        kv_heads=heads if interleaved else config.num_key_value_heads,
        width=_width(attention),
        scale=attention.scaling,
        eps=getattr(config, "rms_norm_eps", None) or config.layer_norm_eps,
        activation=ACTIVATIONS[_activation(config)],
        gated=gated,
        parallel=parallel,
        interleaved=interleaved,
    )


def _angles(network: Any, types: tuple[str, ...]) -> Callable[[int], tuple[Tensor, Tensor]]:
    rotary, by_type = network.base_model.rotary_emb, "" not in _ropes(network.config)

    def angles(positions: int) -> tuple[Tensor, Tensor]:
        like, every = torch.empty(0), torch.arange(positions)[None]
        pairs = [rotary(like, every, kind) if by_type else rotary(like, every) for kind in types]
        cos, sin = (torch.cat(part) for part in zip(*pairs, strict=True))
        return cos, sin

    return angles


def _norm(module: Any) -> Tensor:
    weight = exact(module, "weight")
    return weight + 1 if type(module).__name__ == "Gemma3RMSNorm" else weight  # which stores the difference from 1


def _weight(module: Any) -> Weight:
    """The weight of a product, as it lies in memory."""
    stored = stored_of(module)
    return module.weight if stored is None else stored


def _joined(modules: list[Any]) -> Weight:
    """The weights of products below each other."""
    weights = [_weight(module) for module in modules]
    return below(weights) if any(isinstance(weight, StoredWeight) for weight in weights) else joined(modules)


def _bias(*modules: Any) -> Tensor | None:
    """The biases of modules whose products are joined, in float32."""
    biases = [exact(module, "bias") for module in modules if getattr(module, "bias", None) is not None]
    return torch.cat(biases) if biases else None


def _llama(network: Any) -> Decoder:
    return _decoder(network, [_llama_layer(layer) for layer in network.model.layers], network.model.norm)


def _llama_layer(layer: Any) -> LayerWeights:
    attention, mlp = layer.self_attn, layer.mlp
    if hasattr(attention, "qkv_proj"):  # Phi-3
        first, up = [attention.qkv_proj], [mlp.gate_up_proj]
    else:
        first, up = [attention.q_proj, attention.k_proj, attention.v_proj], [mlp.gate_proj, mlp.up_proj]
    norms_products = hasattr(layer, "pre_feedforward_layernorm")  # Gemma 3
    mlp_norm = layer.pre_feedforward_layernorm if norms_products else layer.post_attention_layernorm
    return LayerWeights(
        norm=_norm(layer.input_layernorm),
        qkv=_joined(first),
        out=_weight(attention.o_proj),
        mlp_norm=_norm(mlp_norm),
        up=_joined(up),
        down=_weight(mlp.down_proj),
        qkv_bias=_bias(*first),
        query_norm=_norm(attention.q_norm) if hasattr(attention, "q_norm") else None,
        key_norm=_norm(attention.k_norm) if hasattr(attention, "k_norm") else None,
        out_bias=_bias(attention.o_proj),
        up_bias=_bias(*up),
        down_bias=_bias(mlp.down_proj),
        out_norm=_norm(layer.post_attention_layernorm) if norms_products else None,
        down_norm=_norm(layer.post_feedforward_layernorm) if norms_products else None,
    )


def _neox(network: Any) -> Decoder:
    body, layers = network.gpt_neox, []
    for layer in body.layers:
        attention, mlp = layer.attention, layer.mlp
        norms = layer.input_layernorm, layer.post_attention_layernorm
        products = [attention.query_key_value], attention.dense, mlp.dense_h_to_4h, mlp.dense_4h_to_h
        layers.append(_layer_normed(norms, products))
    parallel = network.config.use_parallel_residual
    return _decoder(network, layers, body.final_layer_norm, gated=False, parallel=parallel, interleaved=True)


def _phi(network: Any) -> Decoder:
    body, layers = network.model, []
    for layer in body.layers:
        attention, mlp = layer.self_attn, layer.mlp
        first = [attention.q_proj, attention.k_proj, attention.v_proj]
        norms = layer.input_layernorm, layer.input_layernorm
        layers.append(_layer_normed(norms, (first, attention.dense, mlp.fc1, mlp.fc2)))
    return _decoder(network, layers, body.final_layernorm, gated=False, parallel=True)


def _layer_normed(norms: tuple[Any, Any], products: tuple[Any, Any, Any, Any]) -> LayerWeights:
    """A layer with LayerNorms before attention and MLP, and the products qkv (modules), out, up and down."""
    (norm, mlp_norm), (first, out, up, down) = norms, products
    return LayerWeights(
        norm=_norm(norm),
        qkv=_joined(first),
        out=_weight(out),
        mlp_norm=_norm(mlp_norm),
        up=_weight(up),
        down=_weight(down),
        qkv_bias=_bias(*first),
        norm_bias=_bias(norm),
        mlp_norm_bias=_bias(mlp_norm),
        out_bias=_bias(out),
        up_bias=_bias(up),
        down_bias=_bias(down),
    )


READERS: dict[str, Callable[[Any], Decoder]] = {
    **dict.fromkeys(SHAPED, _llama),
    "Phi3ForCausalLM": _llama,
    "Gemma3ForCausalLM": _llama,
    "GPTNeoXForCausalLM": _neox,
    "PhiForCausalLM": _phi,
}
