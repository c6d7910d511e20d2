"""The parts of a decoder layer between its products, for one row or one attention head at a time."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types

from draftscope.models.native.memory import floats, from_bits, halves, indices, narrow, wide
from draftscope.models.native.places import BLOCK
from draftscope.models.native.products import product
from draftscope.models.native.tiles import LANES, mix, tile

LOG2_E = np.float32(1.4426950408889634)
LEAST = np.float32(-126.0)
ONE, HALF, ZERO = np.float32(1.0), np.float32(0.5), np.float32(0.0)
# 2^f for f in [-0.5, 0.5], Taylor coefficients log(2)^n / n!; the error is below 1e-7
C1, C2, C3 = np.float32(0.6931471805599453), np.float32(0.2402265069591007), np.float32(0.05550410866482158)
C4, C5, C6 = np.float32(0.009618129107628477), np.float32(0.0013333558146428443), np.float32(0.00015403530393381608)

_mix1, _mix2, _mix3, _mix4 = mix(1), mix(2), mix(3), mix(4)
_single = tile(1, 1)


@njit(nogil=True)
def exp(x):  # type: ignore[no-untyped-def]
    """e^x for x <= 88, at least 2^-126. Written out, because a call of the C library would not be vectorised."""
    power = max(x * LOG2_E, LEAST)
    whole = np.float32(math.floor(power + HALF))
    f = power - whole
    value = ONE + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))
    return value * from_bits(types.uint32(types.int32(whole) + types.int32(127)) << types.uint32(23))


@njit(nogil=True)
def part(total, multiple, thread, threads):  # type: ignore[no-untyped-def]
    """The range of 0..total that a thread works on; it starts at a multiple of `multiple`."""
    units = (total + multiple - 1) // multiple
    first, last = units * thread // threads * multiple, units * (thread + 1) // threads * multiple
    return min(first, total), min(last, total)


@njit(nogil=True, fastmath=True)
def norm_scale(x, width, eps):  # type: ignore[no-untyped-def]
    """The factor of RMSNorm for a float32 row at address `x`."""
    row, total = floats(x), ZERO
    for i in range(width):
        total += row[i] * row[i]
    return ONE / np.float32(math.sqrt(total / np.float32(width) + eps))


@njit(nogil=True, fastmath=True)
def normed_split(x, weight, width, eps, out):  # type: ignore[no-untyped-def]
    """RMSNorm of a row, split."""
    row, weights, result = floats(x), floats(weight), floats(out)
    scale = norm_scale(x, width, eps)
    for start in range(0, width, BLOCK):
        for lane in range(LANES):
            even = start + 2 * lane
            result[start + lane] = row[even] * scale * weights[even]
            result[start + LANES + lane] = row[even + 1] * scale * weights[even + 1]


@njit(nogil=True)
def split_row(x, width, out):  # type: ignore[no-untyped-def]
    row, result = floats(x), floats(out)
    for start in range(0, width, BLOCK):
        for lane in range(LANES):
            result[start + lane] = row[start + 2 * lane]
            result[start + LANES + lane] = row[start + 2 * lane + 1]


@njit(nogil=True, fastmath=True)
def normed(x, weight, width, eps):  # type: ignore[no-untyped-def]
    """Replaces a row by its RMSNorm."""
    row, weights = floats(x), floats(weight)
    scale = norm_scale(x, width, eps)
    for i in range(width):
        row[i] = row[i] * scale * weights[i]


@njit(nogil=True, fastmath=True)
def normed_narrow(x, weight, width, eps, out):  # type: ignore[no-untyped-def]
    """RMSNorm of a row as bfloat16."""
    row, weights, result = floats(x), floats(weight), halves(out)
    scale = norm_scale(x, width, eps)
    for i in range(width):
        result[i] = narrow(row[i] * scale * weights[i])


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
def added(x, more, first, last):  # type: ignore[no-untyped-def]
    """x[first:last] += more[first:last]."""
    row, other = floats(x), floats(more)
    for i in range(first, last):
        row[i] += other[i]


@njit(nogil=True, fastmath=True)
def gated_split(gate, up, first, last, out):  # type: ignore[no-untyped-def]
    """silu(gate) * up for columns first..last, whole blocks, split."""
    one, other, result = floats(gate), floats(up), floats(out)
    for start in range(first, last, BLOCK):
        for odd in range(2):
            for lane in range(LANES):
                g = one[start + 2 * lane + odd]
                result[start + LANES * odd + lane] = (
                    g / (ONE + exp(min(-g, np.float32(87.0)))) * other[start + 2 * lane + odd]
                )


@njit(nogil=True)
def rotated_split(x, cos, sin, width, scale, out):  # type: ignore[no-untyped-def]
    """A query head at its position's angles [width / 2], times `scale`, split."""
    row, c, s, result, half = floats(x), floats(cos), floats(sin), floats(out), width // 2
    for i in range(half):
        one = (row[i] * c[i] - row[half + i] * s[i]) * scale
        other = (row[half + i] * c[i] + row[i] * s[i]) * scale
        result[_split(i)] = one
        result[_split(half + i)] = other


@njit(nogil=True)
def _split(i):  # type: ignore[no-untyped-def]
    """Where column i of a row is in the split row."""
    return i // BLOCK * BLOCK + i % 2 * LANES + i % BLOCK // 2


@njit(nogil=True)
def rotated_narrow(x, cos, sin, width, out):  # type: ignore[no-untyped-def]
    """A key head at its position's angles, as bfloat16."""
    row, c, s, result, half = floats(x), floats(cos), floats(sin), halves(out), width // 2
    for i in range(half):
        result[i] = narrow(row[i] * c[i] - row[half + i] * s[i])
        result[half + i] = narrow(row[half + i] * c[i] + row[i] * s[i])


@njit(nogil=True)
def seen_columns(mask, columns, out):  # type: ignore[no-untyped-def]
    """Writes the columns that a row attends to, in order; returns their number, and how many at the start are 0, 1, ...

    Attention then sums over these columns only, so a row's bits do not depend on what lies between them.
    """
    result, count, leading = indices(out), 0, 0
    for column in range(columns):
        if mask[column]:
            result[count] = column
            leading += leading == column
            count += 1
    return count, leading


@njit(nogil=True)
def attended(query, keys, values, width, seen, count, leading, scores, out):  # type: ignore[no-untyped-def]
    """One query head's attention over the cached rows `seen`: query and result are split rows of `width` columns."""
    step, chosen = 2 * width, indices(seen)
    product(query, 0, keys, width, 1, scores, 0, 0, leading)
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
