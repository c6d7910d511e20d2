"""One step of a head that reads pairs of an embedding and features (EAGLE, MTP), as one call on all threads."""

from __future__ import annotations

from numba import njit

from draftscope.models.native import norms, pieces
from draftscope.models.native.memory import floats, integers
from draftscope.models.native.native_attention import see
from draftscope.models.native.native_layer import apply, logits, normed
from draftscope.models.native.norms import normed_row
from draftscope.models.native.pieces import part
from draftscope.models.native.places import (
    BLOCK,
    EMBEDDED,
    EMBEDDED_NORM,
    FEATURES,
    FEATURES_NORM,
    FUSION,
    FUSION_BIAS,
    HIDDEN,
    JOINED,
    LOGITS,
    NEXT,
    NORM,
    NORMED_NEXT,
    NORMED_RESIDUAL,
    NUMBERS,
    PAIRS,
    ROWS,
    STATE_COUNT,
    STATE_FUSION,
    STATE_NORMS,
    STATES_READ,
    STATES_SPLIT,
    TEAM,
    W_NORM,
    WEIGHTS,
    X,
)
from draftscope.models.native.products import product
from draftscope.models.native.team import barrier


@njit(nogil=True)
def _fuse_states(a, eps, t, n):  # type: ignore[no-untyped-def]
    """The features from the target's hidden states, as the residual stream."""
    hidden, count, weights = a[HIDDEN], a[STATE_COUNT], integers(a[STATE_NORMS])
    first, last = part(a[ROWS] * count, 1, t, n)
    for item in range(first, last):
        state = a[JOINED] + 4 * t * hidden
        pieces.widened(a[STATES_READ] + 2 * item * hidden, hidden, state)
        normed_row(state, weights[item % count], 0, hidden, eps, a[STATES_SPLIT] + 4 * item * hidden)
    barrier(a[TEAM], t)
    first, last = part(hidden, BLOCK, t, n)
    size = count * hidden
    product(a[STATES_SPLIT], 4 * size, a[STATE_FUSION], size, a[ROWS], a[X], 4 * hidden, first, last)
    barrier(a[TEAM], t)


@njit(nogil=True)
def _begin(a, eps, t, n):  # type: ignore[no-untyped-def]
    """The pairs, the columns that each row attends to, and the features as the residual stream."""
    hidden = a[HIDDEN]
    first, last = part(a[ROWS], 1, t, n)
    for row in range(first, last):
        x, embedded, pair = a[X] + 4 * row * hidden, a[JOINED] + 4 * row * hidden, a[PAIRS] + 8 * row * hidden
        pieces.widened(a[EMBEDDED] + 2 * row * hidden, hidden, embedded)
        normed_row(embedded, a[EMBEDDED_NORM], 0, hidden, eps, pair)
        if a[FEATURES] != 0:
            pieces.widened(a[FEATURES] + 2 * row * hidden, hidden, x)
        normed_row(x, a[FEATURES_NORM], 0, hidden, eps, pair + 4 * hidden)
        if a[NORMED_RESIDUAL] != 0:
            norms.normed(x, a[FEATURES_NORM], hidden, eps)
        see(a, row)


@njit(nogil=True)
def _fuse(a, t, n):  # type: ignore[no-untyped-def]
    """The residual stream from a product of the pairs."""
    hidden = a[HIDDEN]
    first, last = part(hidden, BLOCK, t, n)
    product(a[PAIRS], 8 * hidden, a[FUSION], 2 * hidden, a[ROWS], a[X], 4 * hidden, first, last)
    if a[FUSION_BIAS] != 0:
        for row in range(a[ROWS]):
            pieces.added(a[X] + 4 * row * hidden, a[FUSION_BIAS], first, last)


@njit(nogil=True)
def _keep(a, eps, t, n):  # type: ignore[no-untyped-def]
    """Writes the features of the next step."""
    hidden = a[HIDDEN]
    first, last = part(a[ROWS], 1, t, n)
    for row in range(first, last):
        x, out = a[X] + 4 * row * hidden, a[NEXT] + 2 * row * hidden
        if a[NORMED_NEXT] != 0:
            norms.normed_narrow(x, a[NORM], 0, hidden, eps, out)
        else:
            pieces.narrowed(x, hidden, out)


@njit(nogil=True)
def step(a, t, n):  # type: ignore[no-untyped-def]
    """The step, by one of its threads."""
    eps, w = floats(a[NUMBERS])[0], integers(a[WEIGHTS])
    if a[FEATURES] == 0:
        _fuse_states(a, eps, t, n)
    _begin(a, eps, t, n)
    barrier(a[TEAM], t)
    if a[FUSION] == 0:
        apply(a, 0, w, a[PAIRS], 2 * a[HIDDEN], eps, t, n)
    else:
        _fuse(a, t, n)
        barrier(a[TEAM], t)
        apply(a, 0, w, normed(a, w[W_NORM], 0, eps, t, n), a[HIDDEN], eps, t, n)
    _keep(a, eps, t, n)
    if a[LOGITS] != 0:
        logits(a, eps, t, n)
