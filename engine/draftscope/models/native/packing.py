"""Weights of 4 or 8 bits as they lie in memory for `quantized.py`.

A packed weight [O, I] is a sequence of panels of 16 outputs, a panel one of blocks of `BLOCK` inputs. A block has 16
scales, with 4 bits also 16 least weights (float16), and the levels: four of every output in turn, of the inputs in the
order of a split row; with 4 bits the second half of the block lies in the upper half of the bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from draftscope.models.native.places import BLOCK

LANES = 16  # outputs of a panel
FOUR, EIGHT = 1, 2  # kinds of packed weights, in the lowest bits of an address; 0: bfloat16
STORED = 3  # the address is that of a table of weights as they lie in a file (`stored_weight.py`)
KINDS = FOUR | EIGHT | STORED
SIZES = {FOUR: 4 * LANES + LANES * BLOCK // 2, EIGHT: 2 * LANES + LANES * BLOCK}  # bytes of a block of a panel
HIGHEST, MIDDLE = 15, 128  # highest level of 4 bits; the level of 0 with 8
PART = 1 << 22  # weights that are packed at once
# By ggml's name of a type: bytes of a block, whether it has a least weight, and where its levels begin.
FROM_FILES = {"Q4_0": (18, False, 2), "Q4_1": (20, True, 4), "Q8_0": (34, False, 2)}


class PackedWeight(NamedTuple):
    """`data` is uint8 [O / 16, I / BLOCK, bytes]."""

    data: Tensor
    kind: int

    @property
    def address(self) -> int:
        """What compiled programs read: the address with the kind in its lowest bits."""
        return int(self.data.data_ptr()) | self.kind


class _Levels(NamedTuple):
    """Levels [O, B, BLOCK], scales and least weights [O, B, 1] of blocks, in float32."""

    level: Tensor
    scale: Tensor
    least: Tensor


def packed_blocks(kind: str, data: Tensor) -> PackedWeight:
    """A weight of one of `FROM_FILES`, uint8 [O, bytes] as it lies in the file, packed. O is whole panels."""
    size, least, first = FROM_FILES[kind]
    parts = []
    for part in data.view(len(data), -1, size).split(max(LANES, PART // data.shape[1] // LANES * LANES)):
        scale, bytes_ = part[..., :2].contiguous().view(torch.float16).float(), part[..., first:]
        if kind == "Q8_0":
            level = bytes_.to(torch.int16) ^ MIDDLE  # int8 + 128, as uint8
            parts.append(_packed(_Levels(level, scale, -MIDDLE * scale), EIGHT))
            continue
        level = torch.cat([bytes_ & HIGHEST, bytes_ >> 4], -1)
        lowest = part[..., 2:4].contiguous().view(torch.float16).float() if least else -8 * scale
        parts.append(_packed(_Levels(level, scale, lowest), FOUR))
    return PackedWeight(torch.cat(parts), EIGHT if kind == "Q8_0" else FOUR)


def rounded(weight: Tensor) -> PackedWeight | None:
    """A weight [O, I] rounded to 8 bits; None if its sizes are no whole panels."""
    if not packable(weight):
        return None
    rows = max(LANES, PART // weight.shape[1] // LANES * LANES)
    blocks = (part.float().view(len(part), -1, BLOCK) for part in weight.detach().split(rows))
    return PackedWeight(torch.cat([_packed(_bytes(part), EIGHT) for part in blocks]), EIGHT)


def packable(weight: Tensor) -> bool:
    return weight.shape[0] % LANES == 0 and weight.shape[1] % BLOCK == 0


def _bytes(w: Tensor) -> _Levels:
    """Levels of 8 bits around 0 (Q8_0)."""
    most = MIDDLE - 1
    scale = w.abs().amax(-1, keepdim=True) / most
    level = (w / _divisor(scale)).round()
    scale = _halved((level * w).sum(-1, keepdim=True) / _divisor((level * level).sum(-1, keepdim=True)))
    level = (w / _divisor(scale)).round().clamp(-most, most)
    return _Levels(level + MIDDLE, scale, -MIDDLE * scale)


def _divisor(x: Tensor) -> Tensor:
    return torch.where(x == 0, 1.0, x)


def _halved(x: Tensor) -> Tensor:
    """Rounded to float16, as scales are stored."""
    return x.half().float()


def _packed(levels: _Levels, kind: int) -> Tensor:
    outputs, count, _ = levels.level.shape
    split = torch.arange(BLOCK).view(-1, 2).T.reshape(-1)  # even inputs, then odd ones
    level = levels.level[..., split].to(torch.uint8).view(outputs // LANES, LANES, count, BLOCK // 4, 4)
    level = level.permute(0, 2, 3, 1, 4)  # panel, block, group, output, 4
    scales = [_halves(levels.scale, count)]
    if kind == FOUR:
        low, high = level.chunk(2, 2)
        level = low | high << 4
        scales.append(_halves(levels.least, count))
    return torch.cat([*scales, level.flatten(2)], -1)


def _halves(values: Tensor, count: int) -> Tensor:
    """float16 [outputs, blocks, 1] as bytes [panels, blocks, 32]."""
    return values.view(-1, LANES, count).transpose(1, 2).half().contiguous().view(torch.uint8)
