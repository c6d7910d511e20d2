"""The uniforms of many Philox streams at once, bit for bit those that NumPy's generator draws from each by itself.

NumPy sets one key and one counter at a time, some microseconds each. For the sequences of a large batch that takes
longer than a forward of a small model; here all of them are computed by the same array operations.

Philox4x64-10: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint64]]
Numbers = np.ndarray[Any, np.dtype[np.float64]]

ROUNDS = 10
MULTIPLIERS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
KEY_STEPS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
WORDS = 4  # of a block, each of which gives one number
UNUSED_BITS = np.uint64(11)  # of a word's 64: a double has 53


def uniforms_of_streams(
    seed: int, sequences: Sequence[int], round_index: int, purpose: int, tier: int, count: int
) -> Numbers:
    """[B, count]: the first `count` uniforms of each of B sequences' stream, as `uniforms.uniforms` gives them."""
    blocks = -(-count // WORDS)
    counter = [np.arange(1, blocks + 1, dtype=np.uint64)[None]]  # NumPy counts before it draws
    counter += [np.full((1, 1), word, dtype=np.uint64) for word in (round_index, purpose, tier)]
    keys = np.full((1, 1), seed, dtype=np.uint64), np.array(sequences, dtype=np.uint64)[:, None]
    words = np.stack(np.broadcast_arrays(*_philox(counter, keys)), -1)  # [B, blocks, 4]
    numbers = (words >> UNUSED_BITS).astype(np.float64).reshape(len(sequences), blocks * WORDS)
    return numbers[:, :count] * 2.0**-53


def _philox(counter: Sequence[Words], key: tuple[Words, Words]) -> tuple[Words, Words, Words, Words]:
    """The four words of each block: counters and keys of any shapes that broadcast."""
    a, b, c, d = counter
    first, second = key
    for _ in range(ROUNDS):
        (high, low), (other_high, other_low) = _product(a, MULTIPLIERS[0]), _product(c, MULTIPLIERS[1])
        a, b, c, d = other_high ^ b ^ first, other_low, high ^ d ^ second, low
        first, second = first + KEY_STEPS[0], second + KEY_STEPS[1]
    return a, b, c, d


def _product(words: Words, multiplier: np.uint64) -> tuple[Words, Words]:
    """The high and the low 64 bits of the 128 of each product."""
    low, high = words & LOW, words >> HALF
    by_low, by_high = multiplier & LOW, multiplier >> HALF
    middle = high * by_low + (low * by_low >> HALF)
    other = low * by_high + (middle & LOW)
    return high * by_high + (middle >> HALF) + (other >> HALF), words * multiplier
