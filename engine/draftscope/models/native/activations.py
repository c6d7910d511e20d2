"""The activations of a decoder's MLP, in float32, for compiled code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types

from draftscope.models.native.memory import floats, from_bits, split_row
from draftscope.models.native.places import BLOCK, GELU_TANH, SILU

LOG2_E = np.float32(1.4426950408889634)
LEAST, MOST = np.float32(-126.0), np.float32(87.0)
ONE, HALF = np.float32(1.0), np.float32(0.5)
# 2^f for f in [-0.5, 0.5], Taylor coefficients log(2)^n / n!; the error is below 1e-7
C1, C2, C3 = np.float32(0.6931471805599453), np.float32(0.2402265069591007), np.float32(0.05550410866482158)
C4, C5, C6 = np.float32(0.009618129107628477), np.float32(0.0013333558146428443), np.float32(0.00015403530393381608)
# GELU's approximation by tanh, with tanh(u) = 1 - 2 / (1 + e^2u)
G1, G3 = np.float32(2 * math.sqrt(2 / math.pi)), np.float32(2 * math.sqrt(2 / math.pi) * 0.044715)
# erf, Abramowitz and Stegun 7.1.26; the error is below 2e-7
ROOT_HALF, P = np.float32(math.sqrt(0.5)), np.float32(0.3275911)
E1, E2, E3 = np.float32(0.254829592), np.float32(-0.284496736), np.float32(1.421413741)
E4, E5 = np.float32(-1.453152027), np.float32(1.061405429)


# Divisions by 0 are not looked for: with that, loops would not be vectorised.
unchecked = njit(nogil=True, fastmath=True, error_model="numpy")


@njit(nogil=True)
def exp(x):  # type: ignore[no-untyped-def]
    """e^x for x <= 88, at least 2^-126. Written out, because a call of the C library would not be vectorised."""
    power = max(x * LOG2_E, LEAST)
    whole = np.floor(power + HALF)
    f = power - whole
    value = ONE + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))
    return value * from_bits(types.uint32(types.int32(whole) + types.int32(127)) << types.uint32(23))


@unchecked
def _silu(x):  # type: ignore[no-untyped-def]
    return x / (ONE + exp(min(-x, MOST)))


@unchecked
def _gelu_tanh(x):  # type: ignore[no-untyped-def]
    return x / (ONE + exp(min(-x * (G1 + G3 * x * x), MOST)))


@unchecked
def _gelu(x):  # type: ignore[no-untyped-def]
    size = abs(x) * ROOT_HALF
    t = ONE / (ONE + P * size)
    rest = t * (E1 + t * (E2 + t * (E3 + t * (E4 + t * E5)))) * exp(-size * size)
    return HALF * (x + abs(x) * (ONE - rest))


def _loops(function: Any) -> tuple[Any, Any]:
    """An activation with a gate and without."""

    @unchecked
    def gated(gate, up, first, last, out):  # type: ignore[no-untyped-def]
        one, other = floats(gate), floats(up)
        for start in range(first, last, BLOCK):
            for i in range(start, start + BLOCK):  # whole vectors, so that bits do not depend on where a part ends
                one[i] = function(one[i]) * other[i]
        split_row(gate + 4 * first, last - first, out + 4 * first)

    @unchecked
    def ungated(x, first, last, out):  # type: ignore[no-untyped-def]
        row = floats(x)
        for start in range(first, last, BLOCK):
            for i in range(start, start + BLOCK):
                row[i] = function(row[i])
        split_row(x + 4 * first, last - first, out + 4 * first)

    return gated, ungated


_gated_silu, _lone_silu = _loops(_silu)
_gated_tanh, _lone_tanh = _loops(_gelu_tanh)
_gated_gelu, _lone_gelu = _loops(_gelu)


@njit(nogil=True)
def activate_gated(activation, gate, up, first, last, out):  # type: ignore[no-untyped-def]
    """activation(gate) * up for columns first..last, whole blocks, split."""
    if activation == SILU:
        _gated_silu(gate, up, first, last, out)
    elif activation == GELU_TANH:
        _gated_tanh(gate, up, first, last, out)
    else:
        _gated_gelu(gate, up, first, last, out)


@njit(nogil=True)
def activate(activation, x, first, last, out):  # type: ignore[no-untyped-def]
    """activation(x) for columns first..last, whole blocks, split."""
    if activation == SILU:
        _lone_silu(x, first, last, out)
    elif activation == GELU_TANH:
        _lone_tanh(x, first, last, out)
    else:
        _lone_gelu(x, first, last, out)
