"""Attention of a round's rows to a cached text, on devices where reading the text is what costs.

Three ways give the same numbers up to rounding; `way_of` chooses.

- plain: torch's function with the mask, as everywhere else. On CUDA a mask rules out the flash kernel, and keys and
  values are first copied to all query heads that share them.
- packed: query heads that share keys become rows of one head, so that each key and value is read once.
- split: packed, and the first columns, which every row sees, are read without a mask by the flash kernel, which spreads
  a long text over the whole card. Only the last columns, with the open rows, are masked. Both parts give the logarithm
  of the sum of their exponentials, by which they are merged, as ring attention (2310.01889) merges blocks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from draftscope.models.cache.masks import Common, common_of

DEVICES = {"cuda"}  # kinds of devices whose attention is chosen here; on others it is plain
SPLIT_FROM = 1024  # columns without a mask from which two kernels and a merge are estimated to pay, not measured
MAX_ROWS = 256  # of a verification; more are a prompt
WIDEST_HEAD, STEP = 256, 8  # columns of a head that the kernels take: at most, and in steps of
NAME = "draftscope"  # of this attention in transformers' registries

SPECIAL = ("softcap", "s_aux", "position_bias", "cache")  # what some architectures add to a layer's attention

Way = Literal["plain", "packed", "split"]


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """[B, H, T, D]: rows `query` [B, H, T, D] attend to `keys` and `values` [B, K, S, D] of K heads, H a multiple of K.

    mask [B, 1, T, S] bool: the columns that each row sees. `scale` of the scores; by default the root of 1 / D.
    """
    way, known = way_of(query, keys, values, mask), common_of(mask)
    if way == "plain" or mask is None or known is None:
        return plain(query, keys, values, mask, causal=causal, scale=scale)
    if way == "packed":
        known = Common(0, known.biases)
    rows = query.reshape(len(query), keys.shape[1], -1, query.shape[3])  # [B, K, (H / K) T, D]
    mixed = _attend(rows, keys, values, mask, known, scale)
    return mixed.reshape(*query.shape[:3], values.shape[3])


def plain(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """`attend` by torch's own function: the reference.

    CUDA's kernels for masks that can be trained through take no groups of heads.
    """
    if mask is not None and keys.requires_grad and keys.device.type == "cuda":
        keys, values = (part.repeat_interleave(query.shape[1] // keys.shape[1], 1) for part in (keys, values))
    return F.scaled_dot_product_attention(query, keys, values, mask, is_causal=causal, scale=scale, enable_gqa=True)


def way_of(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Way:
    """How `attend` computes: split where the text is long and the device has the kernel, else packed.

    Plain without a mask or with one of which nothing is known, for prompts, and for heads that the kernels do not take.
    """
    known = common_of(mask)
    widths = query.shape[3], values.shape[3]
    fits = all(width % STEP == 0 and width <= WIDEST_HEAD for width in widths)
    if known is None or keys.device.type not in DEVICES or query.shape[2] > MAX_ROWS or not fits:
        return "plain"
    long = known.columns >= SPLIT_FROM and widths[0] == widths[1]
    return "split" if long and has_flash(keys.device, keys.dtype) else "packed"


@lru_cache(maxsize=64)
def has_flash(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the flash kernel runs there: on CUDA in 16 bits from compute capability 8.0 on."""
    if device.type != "cuda":
        return True
    return dtype != torch.float32 and torch.cuda.get_device_capability(device) >= (8, 0)


def _attend(rows: Tensor, keys: Tensor, values: Tensor, mask: Tensor, known: Common, scale: float | None) -> Tensor:
    """[B, K, R, D]: packed `rows` [B, K, R, D] attend to the common columns, and to the others under `mask`."""
    cut = known.columns
    bias = _bias(mask, known, rows.shape[2], rows.dtype)
    near, near_sum = _masked(rows, keys[:, :, cut:], values[:, :, cut:], bias, scale)
    if not cut:
        return near
    far, far_sum = _unmasked(rows, keys[:, :, :cut], values[:, :, :cut], scale)
    share = torch.sigmoid(far_sum - near_sum)[..., None]  # e^far / (e^far + e^near)
    return torch.lerp(near.float(), far.float(), share).to(rows.dtype)


def _bias(mask: Tensor, known: Common, rows: int, dtype: torch.dtype) -> Tensor:
    """The mask of the columns after the common ones, [B, 1, rows, S'], 0 or minus infinity; once for all layers."""
    key = known.columns, rows, dtype
    if key not in known.biases:
        seen = mask[..., known.columns :]
        bias = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -torch.inf)
        known.biases[key] = bias.repeat(1, 1, rows // seen.shape[2], 1)
    return known.biases[key]


def _unmasked(query: Tensor, keys: Tensor, values: Tensor, scale: float | None) -> tuple[Tensor, Tensor]:
    """Attention [B, K, R, D] to all columns, and the log-sum-exp [B, K, R] of its scores in float32."""
    if query.device.type == "cuda":
        output = torch.ops.aten._scaled_dot_product_flash_attention(query, keys, values, scale=scale)
    else:
        output = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, keys, values, scale=scale)
    return output[0], output[1]


def _masked(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor, scale: float | None) -> tuple[Tensor, Tensor]:
    """The same with `bias` [B, 1, R, S] added to the scores.

    On CUDA the kernel is named, because torch's own choice may be one that is planned anew for each shape.
    """
    bias = bias.expand(-1, query.shape[1], -1, -1)
    if query.device.type == "cuda":
        output = torch.ops.aten._scaled_dot_product_efficient_attention(query, keys, values, bias, True, scale=scale)
    else:
        output = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, keys, values, attn_mask=bias, scale=scale
        )
    return output[0], output[1][..., : query.shape[2]]  # the sums are padded to whole tiles


def use(network: Any) -> None:
    """From now on the layers of `network` attend in this way, where they call transformers' registry.

    Others stay as they are: eager attention (soft caps, sinks), and architectures that call torch themselves.
    """
    if network._supports_attention_backend and network.config._attn_implementation == "sdpa":
        network.set_attn_implementation(NAME)


def _layer(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **more: Any
) -> tuple[Tensor, None]:
    """A layer's attention as transformers calls it: `attend`, or transformers' own for what it does not know."""
    special = any(more.get(name) is not None for name in SPECIAL)
    if special or more.get("dropout") or way_of(query, key, value, attention_mask) == "plain":
        output: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **more)
        return output
    mixed = attend(query, key, value, attention_mask, scale=more.get("scaling"))
    return mixed.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _layer)
AttentionMaskInterface.register(NAME, sdpa_mask)
