"""NumPy's Philox (4x64, ten rounds) for many keys at once: the same bits as a generator of `numpy.random` for each key.

Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011. NumPy has no such call, and to set the state of its
generator takes longer than the few numbers that a row needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

ROUNDS = 10
FACTORS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
STEPS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)  # added to the key after each round
HALF, LOW, MANTISSA = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(11)


def uniforms(seed: int, keys: Words, counter: tuple[int, int, int], count: int) -> NDArray[np.float64]:
    """[B, count] uniforms in [0, 1) of the streams (seed, keys[b]); `counter` is all but its first word, which counts
    blocks of four numbers from 1."""
    blocks = -(-count // 4)
    shape = (len(keys), blocks)
    words = [np.broadcast_to(np.arange(1, blocks + 1, dtype=np.uint64), shape)]
    words += [np.full(shape, word, dtype=np.uint64) for word in counter]
    key = [np.full(shape, seed, dtype=np.uint64), np.broadcast_to(keys[:, None], shape)]
    for _ in range(ROUNDS):
        (high, low), (high_too, low_too) = _product(FACTORS[0], words[0]), _product(FACTORS[1], words[2])
        words = [high_too ^ words[1] ^ key[0], low_too, high ^ words[3] ^ key[1], low]
        key = [own + step for own, step in zip(key, STEPS, strict=True)]
    numbers = (np.stack(words, 2) >> MANTISSA) * 2.0**-53
    return np.ascontiguousarray(numbers.reshape(len(keys), -1)[:, :count])


def _product(factor: np.uint64, words: Words) -> tuple[Words, Words]:
    """The upper and the lower 64 bits of the product."""
    high, low = words >> HALF, words & LOW
    own_high, own_low = factor >> HALF, factor & LOW
    first, second = own_high * low, own_low * high
    carry = ((own_low * low >> HALF) + (first & LOW) + (second & LOW)) >> HALF
    return own_high * high + (first >> HALF) + (second >> HALF) + carry, factor * words
