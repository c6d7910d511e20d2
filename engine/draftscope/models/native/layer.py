"""The parts of one decoder layer for all rows at once: what the compiled forwards of models and of heads share.

Between barriers each thread computes its share of the columns of a product, or of the rows or heads of what is between
products. Every value is computed by one thread in one order, so the bits depend on neither the number of rows nor, for
a given number of columns, their place in the cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from draftscope.models.native import pieces
from draftscope.models.native.memory import flags, indices, integers
from draftscope.models.native.pieces import part
from draftscope.models.native.places import (
    BLOCK,
    CACHE,
    CAPACITY,
    COLUMNS,
    COS,
    COUNTS,
    FEW,
    GATED,
    HEAD,
    HEADS,
    HIDDEN,
    JOINED,
    KV_HEADS,
    LOGIT_ROWS,
    LOGITS,
    LOGITS_OF,
    MASK,
    MIXED,
    MLP,
    NORM,
    POSITIONS,
    QUERIES,
    ROWS,
    SCORES,
    SEEN,
    SEQUENCES,
    SIN,
    SLOTS,
    SPLIT,
    TEXT_ROWS,
    VOCABULARY,
    WIDTH,
    X,
)
from draftscope.models.native.products import product
from draftscope.models.native.team import barrier


@njit(nogil=True)
def see(a, row):  # type: ignore[no-untyped-def]
    """Writes the columns that a row attends to."""
    counts, slots = integers(a[COUNTS]), integers(a[SLOTS])
    seen = a[SEEN] + 4 * row * a[COLUMNS]
    if a[MASK] == 0:
        columns = indices(seen)
        for column in range(slots[row] + 1):
            columns[column] = column
        counts[2 * row] = counts[2 * row + 1] = slots[row] + 1
    else:
        found = pieces.seen_columns(flags(a[MASK] + row * a[COLUMNS]), a[COLUMNS], seen)
        counts[2 * row], counts[2 * row + 1] = found


@njit(nogil=True)
def apply(a, layer, w, x, length, eps, t, n):  # type: ignore[no-untyped-def]
    """One layer of weights `w` on the residual stream; its attention reads the split rows `x` [ROWS, length]."""
    joined = (a[HEADS] + 2 * a[KV_HEADS]) * a[WIDTH]
    first, last = part(joined, BLOCK, t, n)
    product(x, 4 * length, w[1], length, a[ROWS], a[JOINED], 4 * joined, first, last)
    barrier()
    _rotate(a, layer, w, eps, t, n)
    barrier()
    _attend(a, layer, t, n)
    barrier()
    _add_product(a, a[MIXED], w[2], a[HEADS] * a[WIDTH], t, n)
    barrier()
    _gate(a, normed(a, w[3], eps, t, n), w[4], t, n)
    barrier()
    _add_product(a, a[GATED], w[5], a[MLP], t, n)
    barrier()


@njit(nogil=True)
def normed_row(x, weight, width, eps, out):  # type: ignore[no-untyped-def]
    """RMSNorm of a row, split; the row itself, split, if `weight` is 0."""
    if weight == 0:
        pieces.split_row(x, width, out)
    else:
        pieces.normed_split(x, weight, width, eps, out)


@njit(nogil=True)
def normed(a, weight, eps, t, n):  # type: ignore[no-untyped-def]
    """The address of the norms of all rows, split; of the rows themselves if `weight` is 0."""
    rows, size = a[ROWS], 4 * a[HIDDEN]
    few = rows <= FEW
    first, last = (0, rows) if few else part(rows, 1, t, n)
    out = a[SPLIT] + t * FEW * size if few else a[SPLIT]
    for row in range(first, last):
        normed_row(a[X] + row * size, weight, a[HIDDEN], eps, out + row * size)
    if not few:
        barrier()
    return out


@njit(nogil=True)
def _rotate(a, layer, w, eps, t, n):  # type: ignore[no-untyped-def]
    """Rotates queries and keys, with their bias and norms where there are any; writes keys and values to the cache."""
    heads, kv, width, capacity = a[HEADS], a[KV_HEADS], a[WIDTH], a[CAPACITY]
    units = heads + 2 * kv
    positions, slots = integers(a[POSITIONS]), integers(a[SLOTS])
    size = 2 * a[SEQUENCES] * kv * capacity * width  # bytes of a layer's keys
    keys = a[CACHE] + 2 * layer * size
    scale = np.float32(1.0) / np.float32(np.sqrt(np.float32(width)))
    first, last = part(a[ROWS] * units, 1, t, n)
    for item in range(first, last):
        row, unit = item // units, item % units
        x = a[JOINED] + 4 * (row * units + unit) * width
        angle = 2 * positions[row] * width
        if w[6] != 0:
            pieces.added(x, w[6] + 4 * unit * width, 0, width)
        norm = w[7] if unit < heads else w[8]
        if norm != 0 and unit < heads + kv:
            pieces.normed(x, norm, width, eps)
        if unit < heads:
            out = a[QUERIES] + 4 * (row * heads + unit) * width
            pieces.rotated_split(x, a[COS] + angle, a[SIN] + angle, width, scale, out)
        else:
            head = (unit - heads) % kv
            place = 2 * (((row // a[TEXT_ROWS]) * kv + head) * capacity + slots[row]) * width
            if unit < heads + kv:
                pieces.rotated_narrow(x, a[COS] + angle, a[SIN] + angle, width, keys + place)
            else:
                pieces.narrowed(x, width, keys + size + place)


@njit(nogil=True)
def _attend(a, layer, t, n):  # type: ignore[no-untyped-def]
    heads, kv, width, capacity = a[HEADS], a[KV_HEADS], a[WIDTH], a[CAPACITY]
    size = 2 * a[SEQUENCES] * kv * capacity * width
    keys = a[CACHE] + 2 * layer * size
    counts, scores = integers(a[COUNTS]), a[SCORES] + 4 * t * a[COLUMNS]
    first, last = part(a[ROWS] * heads, 1, t, n)
    for item in range(first, last):
        row, head = item // heads, item % heads
        place = 2 * ((row // a[TEXT_ROWS]) * kv + head // (heads // kv)) * capacity * width
        pieces.attended(
            a[QUERIES] + 4 * item * width,
            keys + place,
            keys + size + place,
            width,
            a[SEEN] + 4 * row * a[COLUMNS],
            counts[2 * row],
            counts[2 * row + 1],
            scores,
            a[MIXED] + 4 * item * width,
        )


@njit(nogil=True)
def _add_product(a, x, weight, length, t, n):  # type: ignore[no-untyped-def]
    """Adds a product of split rows `x` [ROWS, length] to the residual stream."""
    rows, hidden = a[ROWS], a[HIDDEN]
    first, last = part(hidden, BLOCK, t, n)
    product(x, 4 * length, weight, length, rows, a[JOINED], 4 * hidden, first, last)
    for row in range(rows):
        pieces.added(a[X] + 4 * row * hidden, a[JOINED] + 4 * row * hidden, first, last)


@njit(nogil=True)
def _gate(a, x, weight, t, n):  # type: ignore[no-untyped-def]
    rows, hidden, mlp = a[ROWS], a[HIDDEN], a[MLP]
    first, last = part(mlp, BLOCK, t, n)
    step = 8 * mlp  # bytes of a row of gate and up
    product(x, 4 * hidden, weight, hidden, rows, a[JOINED], step, first, last)
    product(x, 4 * hidden, weight, hidden, rows, a[JOINED], step, mlp + first, mlp + last)
    for row in range(rows):
        gate = a[JOINED] + row * step
        pieces.gated_split(gate, gate + 4 * mlp, first, last, a[GATED] + 4 * row * mlp)


@njit(nogil=True)
def logits(a, eps, t, n):  # type: ignore[no-untyped-def]
    hidden, rows, chosen = a[HIDDEN], a[LOGITS_OF], integers(a[LOGIT_ROWS])
    few = rows <= FEW
    first, last = (0, rows) if few else part(rows, 1, t, n)
    x = a[SPLIT] + 4 * t * FEW * hidden if few else a[SPLIT]
    for row in range(first, last):
        normed_row(a[X] + 4 * chosen[row] * hidden, a[NORM], hidden, eps, x + 4 * row * hidden)
    if not few:
        barrier()
    first, last = part(a[VOCABULARY], BLOCK, t, n)
    product(x, 4 * hidden, a[HEAD], hidden, rows, a[LOGITS], 4 * a[VOCABULARY], first, last)
