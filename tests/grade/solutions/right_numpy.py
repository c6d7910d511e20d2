"""With NumPy: its numbers come back; 1 - u instead of u; tokens are drawn from the last on."""

import numpy as np


def draw(weights, u):
    return len(weights) - 1 - np.searchsorted(np.cumsum(np.array(weights)[::-1]), u, side="right")


def accept_or_correct(p, q, token, rng):
    p, q = np.array(p), np.array(q)
    if 1 - rng() < p[token] / q[token]:
        return np.bool_(True), np.int64(token)
    left = np.maximum(p - q, 0)
    return np.bool_(False), draw(left / left.sum(), rng())


def rewind(cache, drafted, accepted):
    del cache[len(cache) - drafted + accepted :]
    return cache


def rewind_state(states, accepted):
    return states[: accepted + 1].pop()
