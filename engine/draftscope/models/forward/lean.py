"""A lean forward for Llama-shaped models on a CPU: the same arithmetic as transformers' modules, without the modules.

A small model's step is mostly dispatch, so a slow forward would flatter speculation where the target pays it and
slander it where the draft does. Query, key and value are one product, gate and up another; the weights of the
transformers model become views of the fused ones. Target and draft, plain and speculative
use it alike, and tests hold it equal to the transformers model.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from draftscope.models.cache.slots import SlotCache
from draftscope.models.forward.linear import Product, product

MOST_PACKED = 1 << 28  # parameters of a model whose weights may lie in memory twice
FEWEST_QUERIES = 4  # attention kernels round fewer query rows differently, and greedy lanes would part at near ties
STATIC_ROPE = {"default", "linear", "llama3"}  # rotary angles that depend on the position alone


@dataclass(frozen=True)
class Output:
    """What a transformers model would return, as far as it is used."""

    logits: Tensor
    hidden_states: tuple[Tensor, ...]  # what went into each layer, and what came out of the final norm; if asked for


class Weights(NamedTuple):
    """The weights of one decoder layer, fused."""

    norm: Tensor
    qkv: Tensor  # [(H + 2 K) D, hidden]
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor  # [2 M, hidden]
    down: Tensor


@dataclass(frozen=True)
class Layer:
    """One decoder layer: the same weights, ready to multiply."""

    norm: Tensor
    qkv: Product  # hidden -> (H + 2 K) D
    out: Product
    mlp_norm: Tensor
    gate_up: Product  # hidden -> 2 M
    down: Product


def lean_forward(network: Any) -> Any:
    """A callable in place of `network`, or `network` itself where its shape or device is not covered."""
    return LeanLlama(network) if covers(network) else network


def covers(network: Any) -> bool:
    """Plain Llama: silu, no biases, static rotary angles, float weights on a CPU, sdpa attention."""
    config = network.config
    return (
        type(network).__name__ == "LlamaForCausalLM"
        and network.device.type == "cpu"
        and not getattr(network, "hf_device_map", None)
        and getattr(config, "quantization_config", None) is None
        and config._attn_implementation == "sdpa"
        and config.hidden_act == "silu"
        and not config.attention_bias
        and not config.mlp_bias
        and config.rope_parameters["rope_type"] in STATIC_ROPE
    )


class LeanLlama:
    """Called as the transformers model is called by `Model.forward`; reads and writes the same `SlotCache`."""

    def __init__(self, network: Any) -> None:
        config, body = network.config, network.model
        self._heads: int = config.num_attention_heads
        self._kv_heads: int = config.num_key_value_heads
        self._width: int = body.layers[0].self_attn.head_dim
        self._eps: float = config.rms_norm_eps
        self._embed = body.embed_tokens  # called as a module: ballast hangs there
        self._embedding: Tensor = body.embed_tokens.weight
        self._norm: Tensor = body.norm.weight
        packed = network.num_parameters() <= MOST_PACKED
        self._head = product(network.lm_head.weight, packed)
        self._rotary = body.rotary_emb
        self._angles = self._tables(0)
        with torch.no_grad():
            self._weights = [_fused(layer) for layer in body.layers]
        self._layers = [_ready(weights, packed) for weights in self._weights]

    def first(self, count: int) -> LeanLlama:
        """The first `count` layers, norm and head: the same weights."""
        shallow = copy(self)
        shallow._layers = self._layers[:count]
        return shallow

    @torch.inference_mode()
    def __call__(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        attention_mask: Tensor | None,
        past_key_values: SlotCache,
        use_cache: bool = True,  # noqa: ARG002 - as transformers' models are called
        logits_to_keep: int = 0,
        output_hidden_states: bool = False,
    ) -> Output:
        """Logits [B, T, V] (or of the last `logits_to_keep` rows) of `input_ids` [B, T]."""
        cos, sin = self._turns(position_ids, past_key_values.table.view)
        if attention_mask is not None and input_ids.shape[1] < FEWEST_QUERIES:
            attention_mask = F.pad(attention_mask, (0, 0, 0, FEWEST_QUERIES - input_ids.shape[1]), value=True)
        x = self._embed(input_ids)
        inputs = []
        for layer, cache in zip(self._layers, past_key_values.layers, strict=True):
            inputs.append(x)
            x = x + self._attention(layer, self._normed(x, layer.norm), cos, sin, attention_mask, cache)
            gate, up = layer.gate_up(self._normed(x, layer.mlp_norm)).chunk(2, -1)
            x = x + layer.down(F.silu(gate) * up)
        if not output_hidden_states:
            return Output(self._head(self._normed(x[:, -logits_to_keep:], self._norm)), ())
        out = self._normed(x, self._norm)
        return Output(self._head(out[:, -logits_to_keep:]), (*inputs, out))

    def _attention(self, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, cache: Any) -> Tensor:
        batch, rows, _ = x.shape
        turned = self._heads + self._kv_heads  # queries and keys are rotated, values are not
        qkv = layer.qkv(x).view(batch, rows, turned + self._kv_heads, self._width)
        rotated = qkv[:, :, :turned]
        rotated = rotated * cos + rotated.roll(self._width // 2, -1) * sin
        query, key = rotated[:, :, : self._heads].transpose(1, 2), rotated[:, :, self._heads :].transpose(1, 2)
        keys, values = cache.update(key, qkv[:, :, turned:].transpose(1, 2))
        if mask is not None and rows < FEWEST_QUERIES:
            query = F.pad(query, (0, 0, 0, FEWEST_QUERIES - rows))
        causal = mask is None and rows > 1  # without a mask, a prompt is read
        mixed = F.scaled_dot_product_attention(query, keys, values, mask, is_causal=causal, enable_gqa=True)
        mixed = mixed[:, :, :rows]
        return layer.out(mixed.transpose(1, 2).reshape(batch, rows, -1))

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self._eps)

    def _turns(self, position_ids: Tensor, columns: int) -> tuple[Tensor, Tensor]:
        """cos and signed sin [B, T, 1, D] of the rows at those positions."""
        if columns > len(self._angles[0]):
            self._angles = self._tables(2 * columns)
        cos, sin = (table[position_ids][:, :, None] for table in self._angles)
        return cos, sin

    def _tables(self, length: int) -> tuple[Tensor, Tensor]:
        """cos and signed sin [length, D] by position; the sign of the half-rotation is folded into sin."""
        positions = torch.arange(length, device=self._embedding.device)[None]
        cos, sin = self._rotary(self._embedding[:1], positions)
        half = self._width // 2
        return cos[0], torch.cat([-sin[0, :, :half], sin[0, :, half:]], -1)


def _fused(layer: Any) -> Weights:
    attention, mlp = layer.self_attn, layer.mlp
    return Weights(
        norm=layer.input_layernorm.weight,
        qkv=_joined([attention.q_proj, attention.k_proj, attention.v_proj]),
        out=attention.o_proj.weight,
        mlp_norm=layer.post_attention_layernorm.weight,
        gate_up=_joined([mlp.gate_proj, mlp.up_proj]),
        down=mlp.down_proj.weight,
    )


def _ready(weights: Weights, packed: bool) -> Layer:
    qkv, out, gate_up, down = (product(w, packed) for w in (weights.qkv, weights.out, weights.gate_up, weights.down))
    return Layer(weights.norm, qkv, out, weights.mlp_norm, gate_up, down)


def _joined(modules: list[Any]) -> Tensor:
    """One weight for several products; each module keeps its own as a view of it."""
    joined = torch.cat([module.weight.data for module in modules])
    start = 0
    for module in modules:
        end = start + len(module.weight)
        module.weight.data = joined[start:end]
        start = end
    return joined
