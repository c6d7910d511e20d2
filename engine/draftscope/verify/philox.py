"""The uniforms of many Philox streams at once, bit for bit those of NumPy's own generator.

NumPy draws from one stream a call and setting its state takes longer than the draw, so a batch of hundreds of sequences
would spend more time here than in its forwards. Philox4x64-10, Salmon et al., SC 2011.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ROUNDS = 10
MULTIPLIERS = np.array([0xD2E7470EE14C6C93, 0xCA5A826395121157], dtype=np.uint64)
KEY_STEPS = np.array([0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B], dtype=np.uint64)
HALF, LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)
MANTISSA = 53  # bits of a uniform

Words = NDArray[np.uint64]


def stream_uniforms(
    seed: int, sequences: tuple[int, ...], counter: tuple[int, int, int], count: int
) -> NDArray[np.float64]:
    """[B, count] fp64 uniforms in [0, 1): row b is the stream of key (`seed`, `sequences[b]`) and the last three words
    of the counter."""
    rows, blocks = len(sequences), -(-count // 4)
    key = np.empty((2, rows, 1), dtype=np.uint64)
    key[0], key[1, :, 0] = seed, sequences
    words = np.empty((4, rows, blocks), dtype=np.uint64)
    words[0] = np.arange(1, blocks + 1, dtype=np.uint64)  # NumPy counts up before it computes a block
    for place, word in enumerate(counter, 1):
        words[place] = word
    words = _scrambled(words, key)
    drawn: Words = words.transpose(1, 2, 0).reshape(rows, 4 * blocks)[:, :count]
    return (drawn >> np.uint64(64 - MANTISSA)).astype(np.float64) * np.float64(2.0**-MANTISSA)


def _scrambled(words: Words, key: Words) -> Words:
    """Ten rounds over the counters [4, B, blocks]; `key` [2, B, 1] grows between them."""
    factors, steps = MULTIPLIERS[:, None, None], KEY_STEPS[:, None, None]
    for _ in range(ROUNDS):
        high, low = _product(factors, words[::2])
        words = np.stack([high[1] ^ words[1] ^ key[0], low[1], high[0] ^ words[3] ^ key[1], low[0]])
        key = key + steps
    return words


def _product(left: Words, right: Words) -> tuple[Words, Words]:
    """The high and the low 64 bits of the products of 64-bit numbers."""
    left_high, left_low, right_high, right_low = left >> HALF, left & LOW_HALF, right >> HALF, right & LOW_HALF
    upper, lower = left_low * right_high, left_high * right_low
    middle = (left_low * right_low >> HALF) + (upper & LOW_HALF) + (lower & LOW_HALF)
    return left_high * right_high + (upper >> HALF) + (lower >> HALF) + (middle >> HALF), left * right
