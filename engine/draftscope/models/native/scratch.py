"""Memory for what one call computes on its way."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from draftscope.models.native import places as at
from draftscope.models.native.places import FEW

ALIGNED = 64  # bytes
COLUMNS = 64  # sizes are computed for multiples of this, so that they are the same for many forwards
SIZES = [at.ROWS, at.COLUMNS, at.HIDDEN, at.MLP, at.HEADS, at.KV_HEADS, at.WIDTH, at.KINDS]

Array = np.ndarray[Any, np.dtype[np.int64]]


def scratch(a: Array, threads: int) -> Tensor:
    """Memory for one call with the sizes in `a`, and the addresses of its parts in `a`. Not kept between calls, because
    several threads may run a model at once."""
    rows, columns, *others = a[SIZES].tolist()
    states = int(a[at.STATE_COUNT]) if len(a) > at.STATE_COUNT else None
    places, offsets, size = _layout(rows, -(-columns // COLUMNS) * COLUMNS, tuple(others), states, threads)
    memory = torch.empty(size, dtype=torch.uint8)
    a[places] = offsets + -(-memory.data_ptr() // ALIGNED) * ALIGNED
    return memory


@lru_cache(maxsize=256)
def _layout(
    rows: int, columns: int, others: tuple[int, ...], states: int | None, threads: int
) -> tuple[list[int], Array, int]:
    """The places of the parts' addresses, their distances from the start, and the bytes of all. `states` is the number
    of hidden states that a head may fuse, None for a model."""
    hidden, mlp, heads, kv_heads, width, kinds = others
    inner, outer = heads * width, kv_heads * width
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
    if states is not None:
        sizes[at.PAIRS] = 8 * rows * hidden
        sizes[at.STATES_SPLIT] = 4 * rows * states * hidden
    whole = [-(-size // ALIGNED) * ALIGNED for size in sizes.values()]
    offsets = np.cumsum([0, *whole], dtype=np.int64)
    return list(sizes), offsets[:-1], int(offsets[-1]) + ALIGNED
