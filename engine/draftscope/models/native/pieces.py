"""The parts of a decoder layer between its products, for one row or one attention head at a time."""

from __future__ import annotations

import numpy as np
from numba import njit

from draftscope.models.native.activations import exp
from draftscope.models.native.instructions import LANES
from draftscope.models.native.memory import floats, halves, indices, narrow, wide
from draftscope.models.native.places import BLOCK
from draftscope.models.native.products import product
from draftscope.models.native.tiles import mix, tile

ZERO = np.float32(0.0)

_mix1, _mix2, _mix3, _mix4 = mix(1), mix(2), mix(3), mix(4)
_single = tile(1, 1)


@njit(nogil=True)
def part(total, multiple, thread, threads):  # type: ignore[no-untyped-def]
    """The range of 0..total that a thread works on; it starts at a multiple of `multiple`."""
    units = (total + multiple - 1) // multiple
    first, last = units * thread // threads * multiple, units * (thread + 1) // threads * multiple
    return min(first, total), min(last, total)


@njit(nogil=True)
def narrowed(x, width, out):  # type: ignore[no-untyped-def]
    row, result = floats(x), halves(out)
    for i in range(width):
        result[i] = narrow(row[i])


@njit(nogil=True)
def widened(x, width, out):  # type: ignore[no-untyped-def]
    row, result = halves(x), floats(out)
    for i in range(width):
        result[i] = wide(row[i])


@njit(nogil=True)
def copied(x, width, out):  # type: ignore[no-untyped-def]
    row, result = floats(x), floats(out)
    for i in range(width):
        result[i] = row[i]


@njit(nogil=True)
def added(x, more, first, last):  # type: ignore[no-untyped-def]
    """x[first:last] += more[first:last]."""
    row, other = floats(x), floats(more)
    for i in range(first, last):
        row[i] += other[i]


@njit(nogil=True)
def rotated_split(x, cos, sin, width, rotary, scale, out):  # type: ignore[no-untyped-def]
    """A query head, its first `rotary` columns at its position's angles [rotary / 2], times `scale`, split."""
    row, c, s, result, half = floats(x), floats(cos), floats(sin), floats(out), rotary // 2
    for i in range(half):
        one = (row[i] * c[i] - row[half + i] * s[i]) * scale
        other = (row[half + i] * c[i] + row[i] * s[i]) * scale
        result[_split(i)] = one
        result[_split(half + i)] = other
    for i in range(rotary, width):
        result[_split(i)] = row[i] * scale


@njit(nogil=True)
def _split(i):  # type: ignore[no-untyped-def]
    """Where column i of a row is in the split row."""
    return i // BLOCK * BLOCK + i % 2 * LANES + i % BLOCK // 2


@njit(nogil=True)
def rotated_narrow(x, cos, sin, width, rotary, out):  # type: ignore[no-untyped-def]
    """A key head, its first `rotary` columns at its position's angles, as bfloat16."""
    row, c, s, result, half = floats(x), floats(cos), floats(sin), halves(out), rotary // 2
    for i in range(half):
        result[i] = narrow(row[i] * c[i] - row[half + i] * s[i])
        result[half + i] = narrow(row[half + i] * c[i] + row[i] * s[i])
    for i in range(rotary, width):
        result[i] = narrow(row[i])


@njit(nogil=True)
def seen_columns(mask, columns, out):  # type: ignore[no-untyped-def]
    """Writes the columns that a row attends to, in order; returns their number, and how many of the first ones follow
    each other without a gap.

    Attention then sums over these columns only, so a row's bits do not depend on what lies between them.
    """
    result, count, leading = indices(out), 0, 0
    for column in range(columns):
        if mask[column]:
            result[count] = column
            leading += leading == count and column == result[0] + count
            count += 1
    return count, leading


@njit(nogil=True, error_model="numpy")
def attended(query, keys, values, width, seen, count, leading, scores, out):  # type: ignore[no-untyped-def]
    """One query head's attention over the cached rows `seen`: query and result are split rows of `width` columns."""
    step, chosen = 2 * width, indices(seen)
    product(query, 0, keys + chosen[0] * step, width, 1, scores, 0, 0, leading)
    for i in range(leading, count):
        _single(query, 0, keys + chosen[i] * step, step, width, scores + 4 * i, 0)
    total = _softmax(scores, count)
    at = 0
    while at < width:
        blocks = min(4, (width - at) // BLOCK)
        _mixed(blocks, scores, seen, count, values + 2 * at, step, out + 4 * at)
        at += blocks * BLOCK
    result = floats(out)
    for i in range(width):
        result[i] = result[i] / total


@njit(nogil=True)
def _mixed(blocks, weights, seen, count, rows, step, out):  # type: ignore[no-untyped-def]
    if blocks == 1:
        _mix1(weights, seen, count, rows, step, out)
    elif blocks == 2:
        _mix2(weights, seen, count, rows, step, out)
    elif blocks == 3:
        _mix3(weights, seen, count, rows, step, out)
    else:
        _mix4(weights, seen, count, rows, step, out)


@njit(nogil=True, fastmath=True)
def _softmax(scores, count):  # type: ignore[no-untyped-def]
    """Replaces scores by e^(score - highest) and returns their sum."""
    score, highest, total = floats(scores), np.float32(-3e38), ZERO
    for i in range(count):
        highest = max(highest, score[i])
    for i in range(count):
        score[i] = exp(score[i] - highest)
        total += score[i]
    return total
