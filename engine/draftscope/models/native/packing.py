"""Weights of 4 or 8 bits as they lie in memory for `quantized.py`.

A packed weight [O, I] is a sequence of panels of 16 outputs, a panel one of blocks of `BLOCK` inputs. A block has 16
scales, with 4 bits also 16 least weights (float16), and the levels: four of every output in turn, of the inputs in the
order of a split row; with 4 bits the second half of the block lies in the upper half of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from draftscope.models.native.places import BLOCK

LANES = 16  # outputs of a panel
FOUR, EIGHT = 1, 2  # kinds of packed weights, in the lowest bits of an address; 0: bfloat16
KINDS = FOUR | EIGHT
SIZES = {FOUR: 4 * LANES + LANES * BLOCK // 2, EIGHT: 2 * LANES + LANES * BLOCK}  # bytes of a block of a panel
HIGHEST, MIDDLE = 15, 128  # highest level of 4 bits; the level of 0 with 8
PART = 1 << 22  # weights that are packed at once
RELATIVE, OF_LARGEST = 2.0**-8, 2.0**-9  # how far a weight may be from its block's levels: rounding to bfloat16


class PackedWeight(NamedTuple):
    """`data` is uint8 [O / 16, I / BLOCK, bytes]."""

    data: Tensor
    kind: int

    @property
    def address(self) -> int:
        """What compiled programs read: the address with the kind in its lowest bits."""
        return int(self.data.data_ptr()) | self.kind

    @property
    def wide_bytes(self) -> int:
        """Of the same weight in bfloat16."""
        panels, blocks, _ = self.data.shape
        return 2 * panels * LANES * blocks * BLOCK


class _Levels(NamedTuple):
    """Levels [O, B, BLOCK], scales and least weights [O, B, 1] of blocks, in float32."""

    level: Tensor
    scale: Tensor
    least: Tensor

    @property
    def weights(self) -> Tensor:
        return self.scale * self.level + self.least


def recovered(weight: Tensor) -> PackedWeight | None:
    """A bfloat16 weight [O, I] that was widened from 4 or 8 bits in blocks (Q4_0, Q4_1, Q8_0 of GGUF files), packed.

    None if its values are no rounded levels of such blocks, or its sizes are no whole panels.
    """
    if not packable(weight):
        return None
    candidates = (_parts(weight, kind, levels, exact=True) for kind, levels in WAYS)
    return next((packed for packed in candidates if packed is not None), None)


def rounded(weight: Tensor) -> PackedWeight | None:
    """A weight [O, I] rounded to 8 bits; None if its sizes are no whole panels."""
    return _parts(weight, EIGHT, _bytes, exact=False) if packable(weight) else None


def packable(weight: Tensor) -> bool:
    return weight.shape[0] % LANES == 0 and weight.shape[1] % BLOCK == 0


def _parts(weight: Tensor, kind: int, levels: Callable[[Tensor], _Levels], exact: bool) -> PackedWeight | None:
    """Packed in parts, which bound the memory for it; None if it must be `exact` and a part is not."""
    parts = []
    for part in weight.detach().split(max(LANES, PART // weight.shape[1] // LANES * LANES)):
        blocks = part.float().view(len(part), -1, BLOCK)
        fitted = levels(blocks)
        tolerance = RELATIVE * blocks.abs() + OF_LARGEST * blocks.abs().amax(-1, keepdim=True)
        if exact and not bool(((fitted.weights - blocks).abs() <= tolerance).all()):
            return None
        parts.append(_packed(fitted, kind))
    return PackedWeight(torch.cat(parts), kind)


def _between(w: Tensor) -> _Levels:
    """Levels from the least to the largest weight of a block (Q4_1)."""
    least, largest = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
    return _fitted(w, (largest - least) / HIGHEST, least)


def _around(w: Tensor) -> _Levels:
    """Levels around 0: the weight farthest from 0 is level 0 or, by its sign, as far on the other side (Q4_0)."""
    farthest = w.gather(-1, w.abs().argmax(-1, keepdim=True))
    scale = farthest / -8
    return _fitted(w, scale, -8 * scale)


def _fitted(w: Tensor, scale: Tensor, least: Tensor) -> _Levels:
    """The levels, and the scale and least weight that fit them best."""
    level = ((w - least) / _divisor(scale)).round().clamp(0, HIGHEST)
    centred = level - level.mean(-1, keepdim=True)
    scale = _halved((centred * w).sum(-1, keepdim=True) / _divisor((centred * centred).sum(-1, keepdim=True)))
    return _Levels(level, scale, _halved(w.mean(-1, keepdim=True) - scale * level.mean(-1, keepdim=True)))


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


WAYS = ((FOUR, _between), (FOUR, _around), (EIGHT, _bytes))
