"""The attention of one decoder layer for all rows: from the product of queries, keys and values to the mixed values."""

from __future__ import annotations

from numba import njit

from draftscope.models.native import norms, pieces
from draftscope.models.native.memory import flags, floats, indices, integers
from draftscope.models.native.pieces import part
from draftscope.models.native.places import (
    ANGLES,
    CACHE,
    CAPACITY,
    COLUMNS,
    COS,
    COUNTS,
    HEADS,
    INTERLEAVED,
    JOINED,
    KINDS,
    KV_HEADS,
    MASK,
    MIXED,
    NUMBERS,
    POSITIONS,
    QUERIES,
    ROTARY,
    ROWS,
    SCORES,
    SEEN,
    SEQUENCES,
    SIN,
    SLOTS,
    TEXT_ROWS,
    W_KIND,
    W_QKV_BIAS,
    W_QUERY_NORM,
    WIDTH,
    WINDOWS,
)


@njit(nogil=True)
def see(a, row):  # type: ignore[no-untyped-def]
    """Writes the columns that a row attends to in each kind of layer."""
    counts, slots, windows = integers(a[COUNTS]), integers(a[SLOTS]), integers(a[WINDOWS])
    for kind in range(a[KINDS]):
        place = kind * a[ROWS] + row
        seen, end = a[SEEN] + 4 * place * a[COLUMNS], slots[row] + 1
        if a[MASK] == 0:
            start, columns = max(end - windows[kind], 0) if windows[kind] else 0, indices(seen)
            for column in range(start, end):
                columns[column - start] = column
            counts[2 * place] = counts[2 * place + 1] = end - start
        else:
            columns_seen = pieces.seen_columns(flags(a[MASK] + place * a[COLUMNS]), a[COLUMNS], seen)
            counts[2 * place], counts[2 * place + 1] = columns_seen


@njit(nogil=True)
def rotate(a, layer, w, eps, t, n):  # type: ignore[no-untyped-def]
    """Rotates queries and keys, with their bias and norms where there are any; writes keys and values to the cache."""
    heads, kv, width, capacity, rotary = a[HEADS], a[KV_HEADS], a[WIDTH], a[CAPACITY], a[ROTARY]
    units = heads + 2 * kv
    positions, slots, scale = integers(a[POSITIONS]), integers(a[SLOTS]), floats(a[NUMBERS])[1]
    size = 2 * a[SEQUENCES] * kv * capacity * width  # bytes of a layer's keys
    keys = a[CACHE] + 2 * layer * size
    first, last = part(a[ROWS] * units, 1, t, n)
    for item in range(first, last):
        row, unit = item // units, item % units
        which, head = _unit(a, unit)
        x = a[JOINED] + 4 * item * width
        angle = 2 * rotary * (w[W_KIND] * a[ANGLES] + positions[row])
        if w[W_QKV_BIAS] != 0:
            pieces.added(x, w[W_QKV_BIAS] + 4 * unit * width, 0, width)
        norm = w[W_QUERY_NORM + which] if which < 2 else 0
        if norm != 0:
            norms.normed(x, norm, width, eps)
        place = 2 * (((row // a[TEXT_ROWS]) * kv + head) * capacity + slots[row]) * width
        if which == 0:
            out = a[QUERIES] + 4 * (row * heads + head) * width
            pieces.rotated_split(x, a[COS] + angle, a[SIN] + angle, width, rotary, scale, out)
        elif which == 1:
            pieces.rotated_narrow(x, a[COS] + angle, a[SIN] + angle, width, rotary, keys + place)
        else:
            pieces.narrowed(x, width, keys + size + place)


@njit(nogil=True)
def _unit(a, unit):  # type: ignore[no-untyped-def]
    """Whether a unit of the product is a query (0), a key (1) or a value (2), and of which head."""
    if a[INTERLEAVED]:
        return unit % 3, unit // 3
    if unit < a[HEADS]:
        return 0, unit
    return 1 + (unit - a[HEADS]) // a[KV_HEADS], (unit - a[HEADS]) % a[KV_HEADS]


@njit(nogil=True)
def attend(a, layer, w, t, n):  # type: ignore[no-untyped-def]
    heads, kv, width, capacity = a[HEADS], a[KV_HEADS], a[WIDTH], a[CAPACITY]
    size = 2 * a[SEQUENCES] * kv * capacity * width
    keys = a[CACHE] + 2 * layer * size
    counts, scores = integers(a[COUNTS]), a[SCORES] + 4 * t * a[COLUMNS]
    first, last = part(a[ROWS] * heads, 1, t, n)
    for item in range(first, last):
        row, head = item // heads, item % heads
        seen = w[W_KIND] * a[ROWS] + row
        place = 2 * ((row // a[TEXT_ROWS]) * kv + head // (heads // kv)) * capacity * width
        pieces.attended(
            a[QUERIES] + 4 * item * width,
            keys + place,
            keys + size + place,
            width,
            a[SEEN] + 4 * seen * a[COLUMNS],
            counts[2 * seen],
            counts[2 * seen + 1],
            scores,
            a[MIXED] + 4 * item * width,
        )
