"""RMSNorm and LayerNorm of one float32 row, for compiled code: whole, in place, split or as bfloat16."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from draftscope.models.native.activations import unchecked
from draftscope.models.native.memory import floats, halves, narrow, split_row

ONE, ZERO = np.float32(1.0), np.float32(0.0)


@njit(nogil=True)
def normed_row(x, weight, bias, width, eps, out):  # type: ignore[no-untyped-def]
    """The norm of a row, split: LayerNorm if there is a bias, else RMSNorm; the row itself if `weight` is 0."""
    if weight == 0:
        split_row(x, width, out)
    elif bias != 0:
        _layer_normed_split(x, weight, bias, width, eps, out)
    else:
        _normed_split(x, weight, width, eps, out)


@njit(nogil=True)
def normed_narrow(x, weight, bias, width, eps, out):  # type: ignore[no-untyped-def]
    """The norm of a row as bfloat16."""
    if bias != 0:
        _layer_normed_narrow(x, weight, bias, width, eps, out)
    else:
        _rms_normed_narrow(x, weight, width, eps, out)


@unchecked
def normed(x, weight, width, eps):  # type: ignore[no-untyped-def]
    """Replaces a row by its RMSNorm."""
    row, weights = floats(x), floats(weight)
    scale = _scale(x, width, eps)
    for i in range(width):
        row[i] = row[i] * scale * weights[i]


@unchecked
def added_norm(x, more, weight, width, eps, first, last):  # type: ignore[no-untyped-def]
    """x[first:last] += RMSNorm(more)[first:last]."""
    row, other, weights = floats(x), floats(more), floats(weight)
    scale = _scale(more, width, eps)
    for i in range(first, last):
        row[i] += other[i] * scale * weights[i]


@unchecked
def _scale(x, width, eps):  # type: ignore[no-untyped-def]
    """The factor of RMSNorm for a row."""
    row, total = floats(x), ZERO
    for i in range(width):
        total += row[i] * row[i]
    return ONE / np.float32(math.sqrt(total / np.float32(width) + eps))


@unchecked
def _mean_and_scale(x, width, eps):  # type: ignore[no-untyped-def]
    """What LayerNorm subtracts from a row, and its factor."""
    row, total, squares = floats(x), ZERO, ZERO
    for i in range(width):
        total += row[i]
    mean = total / np.float32(width)
    for i in range(width):
        squares += (row[i] - mean) * (row[i] - mean)
    return mean, ONE / np.float32(math.sqrt(squares / np.float32(width) + eps))


@unchecked
def _normed_split(x, weight, width, eps, out):  # type: ignore[no-untyped-def]
    row, weights, result = floats(x), floats(weight), floats(out)
    scale = _scale(x, width, eps)
    for i in range(width):
        result[i] = row[i] * scale * weights[i]
    split_row(out, width, out)


@unchecked
def _layer_normed_split(x, weight, bias, width, eps, out):  # type: ignore[no-untyped-def]
    row, weights, more, result = floats(x), floats(weight), floats(bias), floats(out)
    mean, scale = _mean_and_scale(x, width, eps)
    for i in range(width):
        result[i] = (row[i] - mean) * scale * weights[i] + more[i]
    split_row(out, width, out)


@unchecked
def _rms_normed_narrow(x, weight, width, eps, out):  # type: ignore[no-untyped-def]
    row, weights, result = floats(x), floats(weight), halves(out)
    scale = _scale(x, width, eps)
    for i in range(width):
        result[i] = narrow(row[i] * scale * weights[i])


@unchecked
def _layer_normed_narrow(x, weight, bias, width, eps, out):  # type: ignore[no-untyped-def]
    row, weights, more, result = floats(x), floats(weight), floats(bias), halves(out)
    mean, scale = _mean_and_scale(x, width, eps)
    for i in range(width):
        result[i] = narrow((row[i] - mean) * scale * weights[i] + more[i])
