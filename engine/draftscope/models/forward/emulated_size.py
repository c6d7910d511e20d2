"""Emulated size: gives an embedded model the memory traffic and arithmetic of a real model, without changing a token.

Side layers of a named shape (width, heads, key-value heads, experts; random non-zero weights) read the embedded model's
residual stream and are added back to it through a projection of zeros. All weights and cached keys of, say, an 8B model
are thus really read, and the output is bit for bit the embedded model's. Target and draft get it as a named pair,
because with only one of them the cost ratio c would be meaningless. Such runs are marked wherever they are
shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models.cache.slots import SlotCache
from draftscope.models.forward.attention import attend
from draftscope.models.native.linear import linear


@dataclass(frozen=True)
class EmulatedShape:
    """The sizes in a published model's config. `experts` of width `mlp` each, `active` per token."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocabulary: int  # rows of the output weights
    reads: int = 1  # inputs of width `hidden` that the attention reads concatenated
    experts: int = 0
    active: int = 0

    @property
    def layer_values(self) -> int:
        attention = self.hidden * self.head_dim * (self.reads * (self.heads + 2 * self.kv_heads) + self.heads)
        return attention + 3 * self.hidden * self.mlp * max(1, self.experts) + self.hidden * self.experts

    @property
    def values(self) -> int:
        """Weights that a forward may read, without embeddings, of which only a few rows are looked up."""
        return self.layers * self.layer_values + self.vocabulary * self.hidden

    @property
    def read_values(self) -> int:
        """Weights that one token's forward reads; of the experts only the active ones."""
        idle = self.experts - self.active if self.experts else 0
        return self.values - self.layers * 3 * self.hidden * self.mlp * idle

    @property
    def slot_values(self) -> int:
        """Keys and values that one token adds to the cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim


SHAPES = {
    shape.name: shape
    for shape in (
        EmulatedShape("smollm2-135m", 30, 576, 9, 3, 64, 1536, 49_152),  # SmolLM2-135M
        EmulatedShape("smollm2-1.7b", 24, 2048, 32, 32, 64, 8192, 49_152),  # SmolLM2-1.7B
        EmulatedShape("1b", 16, 2048, 32, 8, 64, 8192, 128_256),  # Llama-3.2-1B
        EmulatedShape("8b", 32, 4096, 32, 8, 128, 14336, 128_256),  # Llama-3.1-8B
        EmulatedShape("eagle3-8b", 1, 4096, 32, 8, 128, 14336, 32_000, reads=2),  # EAGLE3-LLaMA3.1-Instruct-8B
        EmulatedShape("70b/8", 80, 8192, 8, 1, 128, 3584, 16_032),  # Llama-3.1-70B, one of eight tensor-parallel shards
        EmulatedShape("30b-a3b", 48, 2048, 32, 4, 128, 768, 151_936, experts=128, active=8),  # Qwen3-30B-A3B
    )
}
PAIRS = {
    "1.7b+135m": ("smollm2-1.7b", "smollm2-135m"),
    "8b+1b": ("8b", "1b"),
    "8b+eagle3": ("8b", "eagle3-8b"),
    "70b/8+1b": ("70b/8", "1b"),
    "30b-a3b+1b": ("30b-a3b", "1b"),
}


def pair_of(name: str) -> tuple[EmulatedShape, EmulatedShape]:
    """The shapes of the target and the drafter of a named pair."""
    if name not in PAIRS:
        raise DraftscopeError(f"emulate = '{name}': choose from {', '.join(PAIRS)}.")
    target, draft = PAIRS[name]
    return SHAPES[target], SHAPES[draft]


class EmulatedSize:
    """Side layers of `shape` on a residual stream of width `width`. Called with the stream, returns zeros like it."""

    def __init__(self, shape: EmulatedShape, width: int, dtype: torch.dtype, device: torch.device) -> None:
        self.shape = shape
        fill = _Fill(dtype, device)
        heads = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        self._lift = fill(shape.hidden, width)
        self._layers = [
            _Layer(
                qkv=fill(heads, shape.reads * shape.hidden),
                out=fill(shape.hidden, shape.heads * shape.head_dim),
                router=fill(shape.experts, shape.hidden) if shape.experts else None,
                gate_up=[fill(2 * shape.mlp, shape.hidden) for _ in range(max(1, shape.experts))],
                down=[fill(shape.hidden, shape.mlp) for _ in range(max(1, shape.experts))],
            )
            for _ in range(shape.layers)
        ]
        self._head = fill(shape.vocabulary, shape.hidden)
        self._zeros = torch.zeros((width, shape.hidden), dtype=dtype, device=device)
        self._cache: SlotCache | None = None
        self._mask: Tensor | None = None

    def begin_write(self, cache: SlotCache, mask: Any) -> None:
        """Sets the cache and mask of the next call."""
        self._cache = cache
        self._mask = mask.get("full_attention") if isinstance(mask, dict) else mask

    def __call__(self, x: Tensor) -> Tensor:
        """[B, T, width] -> zeros [B, T, width], after reading all weights and cached keys."""
        assert self._cache is not None
        side = linear(x, self._lift)
        for layer, cache in zip(self._layers, self._cache.side, strict=True):
            side = side + self._attention(layer, _normed(side), cache)
            side = side + self._mlp(layer, _normed(side))
        linear(_normed(side[:, -self._head_rows(side.shape[1]) :]), self._head)
        return linear(_normed(side), self._zeros)

    def _head_rows(self, rows: int) -> int:
        """When a prompt is read, only the logits of its last row are computed."""
        return rows if self._mask is not None else 1

    def _attention(self, layer: _Layer, x: Tensor, cache: Any) -> Tensor:
        shape, (batch, rows, _) = self.shape, x.shape
        qkv = linear(torch.cat([x] * shape.reads, -1), layer.qkv).view(batch, rows, -1, shape.head_dim).transpose(1, 2)
        query, key, value = torch.split(qkv, [shape.heads, shape.kv_heads, shape.kv_heads], 1)
        keys, values = cache.update(key, value)
        causal = self._mask is None and rows > 1
        mixed = attend(query, keys, values, self._mask, causal=causal)
        return linear(mixed.transpose(1, 2).reshape(batch, rows, -1), layer.out)

    def _mlp(self, layer: _Layer, x: Tensor) -> Tensor:
        if layer.router is None:
            return _gated(x, layer.gate_up[0], layer.down[0])
        flat, out = x.flatten(0, 1), torch.zeros_like(x).flatten(0, 1)
        routed = linear(flat, layer.router).topk(self.shape.active, -1).indices
        for expert in sorted(set(routed.flatten().tolist())):  # reads only experts that some row is routed to
            rows = (routed == expert).any(-1)
            out[rows] += _gated(flat[rows], layer.gate_up[expert], layer.down[expert])
        return out.view_as(x)


@dataclass(frozen=True)
class _Layer:
    qkv: Tensor
    out: Tensor
    router: Tensor | None
    gate_up: list[Tensor]
    down: list[Tensor]


class _Fill:
    """Weights in separate memory, filled from one block of random numbers, since drawing 8e9 would take minutes."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(0)
        self._block = torch.randn(1 << 20, generator=generator).to(device, dtype)

    def __call__(self, rows: int, columns: int) -> Tensor:
        weight = torch.empty(rows * columns, dtype=self._block.dtype, device=self._block.device)
        whole = weight.numel() // self._block.numel() * self._block.numel()
        weight[:whole].view(-1, self._block.numel()).copy_(self._block)
        weight[whole:].copy_(self._block[: weight.numel() - whole])
        return weight.view(rows, columns).mul_(columns**-0.5)


def _normed(x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], eps=1e-5)


def _gated(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = linear(x, gate_up).chunk(2, -1)
    return linear(F.silu(gate) * up, down)
