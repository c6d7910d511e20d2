"""Weights of a head, rounded to 8 bits: blocks as of ggml's type Q8_0."""

from __future__ import annotations

import torch
from torch import Tensor

from draftscope.models.native.places import BLOCK
from draftscope.models.native.stored_weight import LANES, StoredRows, StoredWeight

MOST = 127  # largest level
PART = 1 << 22  # weights that are rounded at once


def rounded(weight: Tensor) -> StoredWeight | None:
    """A weight [O, I]; None if its sizes are no whole panels."""
    if weight.shape[0] % LANES or weight.shape[1] % BLOCK:
        return None
    rows = max(1, PART // weight.shape[1])
    blocks = torch.cat([_blocks(part.float().view(len(part), -1, BLOCK)) for part in weight.detach().split(rows)])
    return StoredWeight([StoredRows("Q8_0", blocks, weight.shape[1])])


def _blocks(w: Tensor) -> Tensor:
    """float32 [O, B, BLOCK] -> uint8 [O, B 34]: of every block its scale, which makes the squares of errors least, and
    its levels."""
    scale = w.abs().amax(-1, keepdim=True) / MOST
    level = (w / _divisor(scale)).round()
    scale = ((level * w).sum(-1, keepdim=True) / _divisor((level * level).sum(-1, keepdim=True))).half()
    level = (w / _divisor(scale.float())).round().clamp(-MOST, MOST).to(torch.int8)
    return torch.cat([scale.view(torch.uint8), level.view(torch.uint8)], -1).flatten(1)


def _divisor(x: Tensor) -> Tensor:
    return torch.where(x == 0, 1.0, x)
