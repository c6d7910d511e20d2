"""Drawing and block verification as loops that numba compiles: they read a row once, where PyTorch does so often.

Rows are copied and added token by token: an assignment of whole rows would compile text that tells their shapes, which
takes longer than all else here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float32, float64, int64, njit, void

PART = 512  # tokens whose probabilities are added before they are compared with what is wanted


@njit(float64(float32[::1], int64, int64), nogil=True, cache=True, fastmath={"reassoc"})
def _sum(row: Any, first: int, last: int) -> float:
    total = 0.0
    for token in range(first, last):
        total += row[token]
    return total


@njit(int64(float32[::1], float64), nogil=True, cache=True)
def _drawn(row: Any, uniform: float) -> int:
    """The first token at which the cumulative probability exceeds its share `uniform`; -1 if there is none."""
    size, whole = len(row), 0.0
    parts = np.empty((size + PART - 1) // PART)
    for part in range(len(parts)):
        parts[part] = _sum(row, part * PART, min(size, (part + 1) * PART))
        whole += parts[part]
    wanted, so_far = uniform * whole, 0.0
    for part in range(len(parts)):
        if so_far + parts[part] <= wanted:
            so_far += parts[part]
            continue
        for token in range(part * PART, min(size, (part + 1) * PART)):
            so_far += row[token]
            if so_far > wanted:
                return token
    for token in range(size - 1, -1, -1):  # the sum of the parts was rounded up
        if row[token] > 0:
            return token
    return -1


@njit(void(float32[:, ::1], float64[::1], int64[::1]), nogil=True, cache=True)
def draw(rows: Any, uniforms: Any, tokens: Any) -> None:
    """Writes a token for each row; the last one for a row without any."""
    for row in range(len(rows)):
        token = _drawn(rows[row], uniforms[row])
        tokens[row] = token if token >= 0 else rows.shape[1] - 1


@njit(float32(float32, float32, float32), nogil=True, cache=True)
def _above(weight: Any, p: Any, q: Any) -> Any:
    """(weight p - q)+"""
    rest = weight * p - q
    return rest if rest > 0 else float32(0.0)


@njit(float64(float64, float32[::1], float32[::1]), nogil=True, cache=True, fastmath={"reassoc"})
def _threshold(weight: float, p: Any, q: Any) -> float:
    above, narrow = 0.0, float32(weight)
    for token in range(len(p)):
        above += _above(narrow, p[token], q[token])
    return above / (above + 1.0 - weight) if above > 0 or weight < 1 else 1.0


@njit(
    void(
        float32[:, :, ::1], float32[:, :, ::1], int64[:, ::1], boolean[:, ::1], float64[:, ::1], float64[:, ::1],
        float64[:, ::1], float64[:, ::1], int64[::1], int64[::1], float32[:, ::1],
    ),
    nogil=True, cache=True, error_model="numpy",
)  # fmt: skip
def verify_block(
    p: Any, q: Any, tokens: Any, never: Any, accept: Any, last: Any,
    weights: Any, thresholds: Any, accepted: Any, drawn: Any, left: Any,
) -> None:  # fmt: skip
    """`verify.verify_block`; writes the weights, thresholds, accepted nodes, last tokens and residuals of B chains."""
    nodes = tokens.shape[1]
    for row in range(len(p)):
        weight, kept = 1.0, 0
        weights[row, 0] = weight
        for node in range(nodes):
            token = tokens[row, node]
            ratio = 0.0 if never[row, node] else float64(p[row, node, token]) / q[row, node, token]
            weight = min(weight * ratio, 1.0)
            following = node + 1
            inner = following < nodes and not never[row, following]
            weights[row, following] = weight
            thresholds[row, node] = _threshold(weight, p[row, following], q[row, following]) if inner else weight
            if accept[row, node] < thresholds[row, node]:
                kept = following
        accepted[row], drawn[row] = kept, -1
        if kept < nodes and not never[row, kept]:
            narrow = float32(weights[row, kept])
            for token in range(p.shape[2]):
                left[row, token] = _above(narrow, p[row, kept, token], q[row, kept, token])
            drawn[row] = _drawn(left[row], last[row, kept])
        if drawn[row] < 0:  # the whole chain was accepted, or nothing is left but rounding
            for token in range(p.shape[2]):
                left[row, token] = p[row, kept, token]
            drawn[row] = max(0, _drawn(left[row], last[row, kept]))
