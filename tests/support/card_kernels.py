"""A card's attention kernels on a CPU: they compute by its own, and refuse what a card's refuse."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

aten = torch.ops.aten
TILE = 32  # rows whose sums the memory-efficient kernel keeps together


def _flash(query: Tensor, keys: Tensor, values: Tensor, *_: Any, scale: float | None = None) -> tuple[Any, ...]:
    """`_scaled_dot_product_flash_attention`: 16 bits, heads of one width, no mask."""
    width = query.shape[3]
    if query.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
    if width % 8 or width > 256 or keys.shape[3] != width or values.shape[3] != width:
        raise RuntimeError(f"FlashAttention forward only supports head dimension at most 256, in steps of 8: {width}")
    _aligned(query, keys, values)
    mixed, sums = aten._scaled_dot_product_flash_attention_for_cpu(query, keys, values, scale=scale)
    return mixed, sums.contiguous(), None, None, query.shape[2], keys.shape[2], None, None, None


def _efficient(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, with_sums: bool, *_: Any,
    scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """`_scaled_dot_product_efficient_attention`: any floats; the bias is of the query's type and of every score."""
    _aligned(query, keys, values)
    if bias is not None:
        if bias.dtype != query.dtype or bias.shape != (*query.shape[:3], keys.shape[2]):
            raise RuntimeError(f"invalid dtype or shape for bias: {bias.dtype}, {tuple(bias.shape)}")
        _aligned(bias)
    mixed, sums = aten._scaled_dot_product_flash_attention_for_cpu(query, keys, values, attn_mask=bias, scale=scale)
    padding = -query.shape[2] % TILE
    return mixed, pad(sums.contiguous(), (0, padding), value=torch.inf) if with_sums else sums[..., :0], None, None


def _aligned(*tensors: Tensor) -> None:
    for each in tensors:
        if each.stride(3) != 1 or any(stride % 8 for stride in each.stride()[:3]):
            raise RuntimeError(f"misaligned address: strides {each.stride()}")


STAND_INS = {
    aten._scaled_dot_product_flash_attention.default: _flash,
    aten._scaled_dot_product_efficient_attention.default: _efficient,
}
