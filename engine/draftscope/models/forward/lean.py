"""A lean forward for Llama-shaped models on a CPU: the same arithmetic as transformers' modules, with less overhead.

Llama, Mistral, Qwen2 (which adds a bias to queries, keys and values) and Qwen3 (which normalises each head of queries
and keys) have that shape.

A step of a small model is mostly dispatch overhead. It would make speculation look better than it is where the target
pays for it, and worse where the draft does. Here query, key and value are one matmul, gate and up another; the weights
of the transformers model become views of the fused weights. Target and draft use it, in plain and speculative decoding,
and tests hold it equal to the transformers model.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftscope.models.cache.layers import is_mixed
from draftscope.models.cache.slots import SlotCache

FEWEST_QUERIES = 4  # attention kernels round fewer query rows differently: greedy runs would diverge at near ties
SHAPED = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
STATIC_ROPE = {"default", "linear", "llama3"}  # rotary angles that depend only on the position


@dataclass(frozen=True)
class Output:
    """The part of a transformers model's output that is used."""

    logits: Tensor
    hidden_states: (
        Tensor | tuple[Tensor, ...]
    )  # by number: the input of each layer, the output of the final norm and its input, if requested


@dataclass(frozen=True)
class Layer:
    """One decoder layer: its weights, fused."""

    norm: Tensor
    qkv: Tensor  # [(H + 2 K) D, hidden]
    qkv_bias: Tensor | None
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor  # [2 M, hidden]
    down: Tensor
    query_norm: Tensor | None  # [D], of every head
    key_norm: Tensor | None  # [D]


def _padded(x: Tensor, value: float = 0.0) -> Tensor:
    """`x` [B, H, T, D] with at least `FEWEST_QUERIES` rows."""
    return F.pad(x, (0, 0, 0, max(FEWEST_QUERIES - x.shape[2], 0)), value=value)


def covers(network: Any) -> bool:
    """Whether it is computed here: on a CPU, by sdpa attention."""
    attention = network.config._attn_implementation
    return network.device.type == "cpu" and attention == "sdpa" and is_llama_shaped(network)


def is_llama_shaped(network: Any) -> bool:
    """Whether it has that shape in all layers: silu, full attention, static rotary angles, float weights on one device,
    and no biases but those of queries, keys and values."""
    config = network.config
    return (
        type(network).__name__ in SHAPED
        and not is_mixed(config)
        and not getattr(network, "hf_device_map", None)
        and getattr(config, "quantization_config", None) is None
        and config.hidden_act == "silu"
        and not _biased(network.model.layers[0])
        and set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
        and (getattr(config, "sliding_window", None) or config.max_position_embeddings)
        >= config.max_position_embeddings
        and config.rope_parameters["rope_type"] in STATIC_ROPE
    )


def _biased(layer: Any) -> bool:
    """Whether a product has a bias that is not computed here."""
    attention, mlp = layer.self_attn, layer.mlp
    return any(product.bias is not None for product in (attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj))


class LeanLlama:
    """Called by `Model.forward` like a transformers model; reads and writes the same `SlotCache`."""

    def __init__(self, network: Any) -> None:
        config, body = network.config, network.model
        self._heads: int = config.num_attention_heads
        self._kv_heads: int = config.num_key_value_heads
        self._width: int = body.layers[0].self_attn.head_dim
        self._eps: float = config.rms_norm_eps
        self._embed = body.embed_tokens  # called as a module, because an emulated size is a hook on it
        self._embedding: Tensor = body.embed_tokens.weight
        self._norm: Tensor = body.norm.weight
        self._head: Tensor = network.lm_head.weight
        self._rotary = body.rotary_emb
        self._angles = self._tables(0)
        with torch.no_grad():
            self._layers = [_fused(layer) for layer in body.layers]

    def first(self, count: int) -> LeanLlama:
        """The first `count` layers with the norm and the head; shares the weights."""
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
        cos, sin = self._cos_sin(position_ids, past_key_values.table.view)
        if attention_mask is not None and input_ids.shape[1] < FEWEST_QUERIES:
            attention_mask = _padded(attention_mask.repeat(1, 1, self._heads // self._kv_heads, 1), value=True)
        x = self._embed(input_ids)
        inputs = []
        for layer, cache in zip(self._layers, past_key_values.layers, strict=True):
            inputs.append(x)
            x = x + self._attention(layer, self._normed(x, layer.norm), cos, sin, attention_mask, cache)
            gate, up = F.linear(self._normed(x, layer.mlp_norm), layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        if not output_hidden_states:
            return Output(F.linear(self._normed(x[:, -logits_to_keep:], self._norm), self._head), ())
        out = self._normed(x, self._norm)
        return Output(F.linear(out[:, -logits_to_keep:], self._head), (*inputs, out, x))

    def _attention(self, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, cache: Any) -> Tensor:
        batch, rows, _ = x.shape
        query, key, value = (part.transpose(1, 2) for part in self._projected(layer, x, cos, sin))
        keys, values = cache.update(key, value)
        if mask is not None and rows < FEWEST_QUERIES:  # heads that share keys become rows, so keys are read once
            together = query.reshape(batch, self._kv_heads, -1, self._width)
            mixed = F.scaled_dot_product_attention(_padded(together), keys, values, mask)[:, :, : together.shape[2]]
            mixed = mixed.reshape(batch, self._heads, rows, self._width)
        else:
            causal = mask is None and rows > 1  # there is no mask only when a prompt is read
            mixed = F.scaled_dot_product_attention(query, keys, values, mask, is_causal=causal, enable_gqa=True)
        return F.linear(mixed.transpose(1, 2).reshape(batch, rows, -1), layer.out)

    def _projected(self, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [B, T, H, D], keys and values [B, T, K, D] of rows [B, T, hidden]."""
        rotary = self._heads + self._kv_heads  # queries and keys are rotated, values are not
        qkv = F.linear(x, layer.qkv, layer.qkv_bias).view(*x.shape[:2], rotary + self._kv_heads, self._width)
        rotated = self._normed_heads(layer, qkv[:, :, :rotary])
        rotated = rotated * cos + rotated.roll(self._width // 2, -1) * sin
        return rotated[:, :, : self._heads], rotated[:, :, self._heads :], qkv[:, :, rotary:]

    def _normed_heads(self, layer: Layer, heads: Tensor) -> Tensor:
        """Queries and keys [B, T, H + K, D], each head normalised where the model does that."""
        if layer.query_norm is None or layer.key_norm is None:
            return heads
        query, key = heads[:, :, : self._heads], heads[:, :, self._heads :]
        return torch.cat([self._normed(query, layer.query_norm), self._normed(key, layer.key_norm)], 2)

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self._eps)

    def _cos_sin(self, position_ids: Tensor, columns: int) -> tuple[Tensor, Tensor]:
        """cos and signed sin [B, T, 1, D] of rows at positions [B, T], all below `columns`."""
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


def joined(modules: Sequence[nn.Linear]) -> Tensor:
    """The concatenated weight of several modules; each module's weight becomes a view of it."""
    together = torch.cat([module.weight.data for module in modules])
    start = 0
    for module in modules:
        end = start + len(module.weight)
        module.weight.data = together[start:end]
        start = end
    return together


def _fused(layer: Any) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    first = [attention.q_proj, attention.k_proj, attention.v_proj]
    query_norm, key_norm = (getattr(getattr(attention, name, None), "weight", None) for name in ("q_norm", "k_norm"))
    return Layer(
        norm=layer.input_layernorm.weight,
        qkv=joined(first),
        qkv_bias=None if first[0].bias is None else torch.cat([projection.bias for projection in first]),
        out=attention.o_proj.weight,
        mlp_norm=layer.post_attention_layernorm.weight,
        gate_up=joined([mlp.gate_proj, mlp.up_proj]),
        down=mlp.down_proj.weight,
        query_norm=query_norm,
        key_norm=key_norm,
    )
