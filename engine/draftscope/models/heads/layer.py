"""A Llama-like decoder layer, shared by all heads; it trains without a cache and drafts with one.

Modules have the names of the published weights (`self_attn.q_proj`, `mlp.gate_proj`, ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from draftscope.models.forward.attention import attend

Angles = tuple[Tensor, Tensor]  # cos and signed sin, [B, T, 1, D] each


@dataclass(frozen=True)
class HeadShape:
    """The sizes and options of a layer. `rope` is what transformers calls `rope_parameters`."""

    hidden: int
    heads: int
    key_value_heads: int
    head_width: int
    mlp: int
    rope: Mapping[str, Any]
    positions: int
    eps: float = 1e-6
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False  # norms on every attention head's query and key, as in Qwen3


class Rotary:
    """Rotary angles from positions. Not a module, so that frequencies stay in fp32 when a head is cast to 16 bits."""

    def __init__(self, shape: HeadShape) -> None:
        config = LlamaConfig(
            hidden_size=shape.hidden,
            num_attention_heads=shape.heads,
            head_dim=shape.head_width,
            max_position_embeddings=shape.positions,
            rope_parameters=dict(shape.rope),
        )
        with torch.device("cpu"):  # even if the head is built on the meta device
            rotary = LlamaRotaryEmbedding(config)
        self._frequencies: Tensor = rotary.inv_freq  # [D / 2]
        self._scale: float = rotary.attention_scaling

    def __call__(self, position_ids: Tensor, dtype: torch.dtype) -> Angles:
        """The angles of positions [B, T]; the sign of the half-rotation is folded into sin."""
        if self._frequencies.device != position_ids.device:
            self._frequencies = self._frequencies.to(position_ids.device)
        angles = position_ids[:, :, None, None].float() * self._frequencies
        cos, sin = angles.cos() * self._scale, angles.sin() * self._scale
        return torch.cat([cos, cos], -1).to(dtype), torch.cat([-sin, sin], -1).to(dtype)


class Attention(nn.Module):
    """Attention of rows to themselves, to a cache, and to `context` rows, which have keys and values but no queries.

    `width` is the input size of query, key and value; EAGLE-3 concatenates two hidden vectors there.
    """

    def __init__(self, shape: HeadShape, width: int, causal: bool) -> None:
        super().__init__()
        inner, outer = shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
        self.q_proj = nn.Linear(width, inner, bias=shape.qkv_bias)
        self.k_proj = nn.Linear(width, outer, bias=shape.qkv_bias)
        self.v_proj = nn.Linear(width, outer, bias=shape.qkv_bias)
        self.o_proj = nn.Linear(inner, shape.hidden, bias=shape.out_bias)
        self.q_norm = nn.RMSNorm(shape.head_width, shape.eps) if shape.qk_norm else None
        self.k_norm = nn.RMSNorm(shape.head_width, shape.eps) if shape.qk_norm else None
        self.head_width = shape.head_width
        self._causal = causal

    def forward(
        self, rows: Tensor, angles: Angles, mask: Tensor | None, cache: Any, context: Tensor | None = None
    ) -> Tensor:
        """[B, T, width] -> [B, T, hidden]. `angles` are those of `context` [B, C, width], then those of the rows.

        `cache` is one layer of a `SlotCache` that is ready to write C + T rows, or None. `mask` [B, 1, T, columns] bool
        says which columns each row attends to: of the cache's view or, without a cache, of the C + T rows. None is
        causal attention in causal layers and full attention in others.
        """
        source = rows if context is None else torch.cat([context, rows], 1)
        query, key = self._heads(self.q_proj(rows), self.q_norm), self._heads(self.k_proj(source), self.k_norm)
        value = self._heads(self.v_proj(source), None).transpose(1, 2)
        cos, sin = angles
        count = rows.shape[1]
        query = _rotated(query, cos[:, -count:], sin[:, -count:]).transpose(1, 2)
        key = _rotated(key, cos, sin).transpose(1, 2)
        if cache is not None:
            key, value = cache.update(key, value)
        causal = self._causal and mask is None and count > 1
        mixed = attend(query, key, value, mask, causal=causal)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def _heads(self, rows: Tensor, norm: nn.Module | None) -> Tensor:
        """[B, T, heads x D] -> [B, T, heads, D]."""
        split = rows.view(*rows.shape[:-1], -1, self.head_width)
        return split if norm is None else norm(split)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x * cos + x.roll(x.shape[-1] // 2, -1) * sin


class Mlp(nn.Module):
    """SwiGLU: [B, T, hidden] -> [B, T, hidden]."""

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.mlp, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.mlp, bias=False)
        self.down_proj = nn.Linear(shape.mlp, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Attention and MLP, each with a norm before it and a residual connection. EAGLE-1 has no first norm."""

    def __init__(self, shape: HeadShape, causal: bool = True, first_norm: bool = True) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden, shape.eps) if first_norm else nn.Identity()
        self.self_attn = Attention(shape, shape.hidden, causal)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, shape.eps)
        self.mlp = Mlp(shape)

    def forward(
        self, rows: Tensor, angles: Angles, mask: Tensor | None, cache: Any, context: Tensor | None = None
    ) -> Tensor:
        """[B, T, hidden] -> [B, T, hidden]; the arguments are `Attention`'s."""
        rows = rows + self.self_attn(self.input_layernorm(rows), angles, mask, cache, context)
        return rows + self.mlp(self.post_attention_layernorm(rows))  # type: ignore[no-any-return]
