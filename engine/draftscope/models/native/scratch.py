"""Memory for what one call computes on its way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from draftscope.models.native import places as at
from draftscope.models.native.places import FEW

ALIGNED = 64  # bytes


def scratch(a: Any, threads: int) -> Tensor:
    """Memory for one call with the sizes in `a`, and the addresses of its parts in `a`. Not kept between calls, because
    several threads may run a model at once."""
    rows, columns, hidden, mlp = (int(a[place]) for place in (at.ROWS, at.COLUMNS, at.HIDDEN, at.MLP))
    kinds = int(a[at.KINDS])
    inner, outer = int(a[at.HEADS] * a[at.WIDTH]), int(a[at.KV_HEADS] * a[at.WIDTH])
    sizes = {
        at.X: 4 * rows * hidden,
        at.SPLIT: 4 * max(rows, threads * FEW) * hidden,
        at.JOINED: 4 * max(rows * max(inner + 2 * outer, 2 * mlp, hidden), threads * hidden),
        at.QUERIES: 4 * rows * inner,
        at.MIXED: 4 * rows * inner,
        at.ACTIVATED: 4 * rows * mlp,
        at.SEEN: 4 * kinds * rows * columns,
        at.COUNTS: 16 * kinds * rows,
        at.SCORES: 4 * threads * columns,
    }
    if len(a) > at.PAIRS:
        sizes[at.PAIRS] = 8 * rows * hidden
        sizes[at.STATES_SPLIT] = 4 * rows * int(a[at.STATE_COUNT]) * hidden
    memory = torch.empty(sum(sizes.values()) + ALIGNED * len(sizes) + ALIGNED, dtype=torch.uint8)
    start = memory.data_ptr()
    for place, size in sizes.items():
        start = -(-start // ALIGNED) * ALIGNED
        a[place] = start
        start += size
    return memory
