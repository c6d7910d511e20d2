"""The distribution a server should sample from: temperature, top-k, top-p and min-p, in that server's order.

The order matters: llama.cpp truncates before it applies the temperature, vLLM applies min-p before top-p. At the edge
of a truncation rounding decides whether a token is in. Such tokens are marked: nothing may be concluded from them.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from draftscope.servers.programs.program import Step
from draftscope.verify.sampling import Sampling

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


def warped(
    logits: Floats, sampling: Sampling, order: tuple[Step, ...], slack: float = 0.0
) -> tuple[Floats, Flags | None]:
    """logits [T, V] -> log-probabilities [T, V] (-inf: excluded), and which tokens lie at an edge (None: none can).

    `slack` is the error of one logit that is allowed for. Tokens at an edge have probability 0, and the others' are
    conditional on not being there: whichever of them a server lets in, the others keep their proportions.
    """
    scores, edge = logits.astype(np.float64), np.zeros(logits.shape, bool)
    for step in order:
        if step == "temperature":
            scores /= sampling.temperature
            continue
        if (bounds := _bounds(step, scores, edge, sampling, slack)) is None:
            continue
        lowest_in, highest_out = bounds
        edge |= (scores >= highest_out) & (scores < lowest_in)
        scores[scores < highest_out] = -np.inf
    scores[edge] = -np.inf
    return log_softmax(scores, -1), edge if edge.any() else None


def _bounds(step: Step, scores: Floats, edge: Flags, sampling: Sampling, slack: float) -> tuple[Floats, Floats] | None:
    """Scores [T, 1] from which a token is certainly kept, and below which it is certainly not; None: step is off.

    The best token is always certainly kept.
    """
    best = scores.max(-1, keepdims=True)
    if step == "top_k":
        if not 0 < sampling.top_k < scores.shape[-1]:
            return None
        kept = -np.partition(-scores, sampling.top_k - 1, -1)[:, sampling.top_k - 1 : sampling.top_k]
        low, high = kept, kept
    elif step == "min_p":
        if not sampling.min_p:
            return None
        low = high = best + np.log(sampling.min_p)
    else:
        if sampling.top_p >= 1:
            return None
        descending = -np.sort(-scores, -1)
        logs = log_softmax(scores, -1)
        doubtful = (np.exp(logs) * edge).sum(-1, keepdims=True)  # without these, the others hold more
        before = np.exp(log_softmax(descending, -1)).cumsum(-1)
        before = np.concatenate([np.zeros_like(before[:, :1]), before[:, :-1]], -1)  # mass of all better tokens
        margin = slack / 4
        high = _last_below(descending, before, (sampling.top_p - margin) * (1 - doubtful))
        low = _last_below(descending, before, sampling.top_p + margin)
    if not slack:
        return high, low
    return np.minimum(high + 2 * slack, best), low - 2 * slack


def _last_below(descending: Floats, before: Floats, mass: Floats | float) -> Floats:
    """The score [T, 1] of the last token whose better tokens hold less than `mass`; at least the best token's."""
    count = np.maximum((before < mass).sum(-1, keepdims=True), 1)
    last: Floats = np.take_along_axis(descending, count - 1, -1)
    return last
