"""Whole answers from single rounds: B sequences of N tokens whose rounds are drawn from what was observed.

A formula with the mean acceptance is too good for a batch: the slowest of B sequences decides when it ends, and all of
them pay for the largest draft of a round. Each sequence draws the rounds of one prompt, since easy and hard texts stay
so; every prompt has batches of its own, as in the proof. Finished sequences are removed from the batch as they are in
`decode/session.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from draftscope.advise.observed import Observed
from draftscope.decode.session import COMPACT_AT

SEQUENCES = 256  # simulated, in batches
MAX_TOKENS = 128  # a longer answer takes as much longer as it has more tokens

Cost = Callable[[int, int, int], float]  # nodes, levels, rows of the batch -> ms of a round


def finish_times(observed: Observed, cost: Cost, batch: int, tokens: int) -> NDArray[np.float64]:
    """[P, S, B]: ms after which each sequence has its `tokens`, without prefill.

    Each of P prompts has S batches, of which it is the first sequence; the others are drawn from all prompts.
    """
    shown, prompts = min(tokens, MAX_TOKENS), len(observed.prompts)
    draws = np.random.default_rng(0)
    per_prompt = max(2, max(8, SEQUENCES // batch) // prompts)
    form = prompts * per_prompt, batch
    counts = np.array([len(prompt.accepted) for prompt in observed.prompts])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    whose = draws.integers(0, prompts, form)
    whose[:, 0] = np.repeat(np.arange(prompts), per_prompt)
    accepted, nodes, levels = observed.accepted, observed.nodes, observed.levels
    left, clock, done = np.full(form, shown), np.zeros(form[0]), np.zeros(form)
    rows = np.full(form[0], batch)
    while (left > 0).any():
        live = left > 0
        picked = starts[whose] + (draws.random(form) * counts[whose]).astype(np.int64)
        width, deep = ((sizes[picked] * live).max(1) for sizes in (nodes, levels))
        clock += _costs(cost, width, deep, rows) * live.any(1)
        left = left - (1 + accepted[picked]) * live
        done = np.where(live & (left <= 0), clock[:, None], done)
        rows = _compacted(rows, (left > 0).sum(1))
    return (done * (tokens / shown)).reshape(prompts, per_prompt, batch)


def _costs(
    cost: Cost, nodes: NDArray[np.int64], levels: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    kinds, which = np.unique(np.stack([nodes, levels, rows], 1), axis=0, return_inverse=True)
    return np.array([cost(*map(int, kind)) for kind in kinds])[which.reshape(-1)]


def _compacted(rows: NDArray[np.int64], live: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of each batch in its next round."""
    ended = rows - live
    return np.where((live > 0) & (ended >= np.maximum(1, COMPACT_AT * rows)), live, rows)
