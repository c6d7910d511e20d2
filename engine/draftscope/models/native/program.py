"""One forward of a decoder as one call on all threads."""

from __future__ import annotations

from functools import lru_cache

from numba import cfunc, njit, types

from draftscope.models.native import norms, pieces, products, team
from draftscope.models.native.attention import see
from draftscope.models.native.layer import apply, logits, normed
from draftscope.models.native.memory import floats, integers
from draftscope.models.native.pieces import part
from draftscope.models.native.places import (
    EMBEDDED,
    HIDDEN,
    LAYERS,
    NORM,
    NORM_BIAS,
    NUMBERS,
    PER_LAYER,
    ROWS,
    STATES,
    W_NORM,
    W_NORM_BIAS,
    WEIGHTS,
    X,
)
from draftscope.models.native.team import barrier, sources, thread, threads


@njit(nogil=True)
def _begin(a, t, n):  # type: ignore[no-untyped-def]
    """The residual stream from the embeddings, and the columns that each row attends to."""
    first, last = part(a[ROWS], 1, t, n)
    for row in range(first, last):
        pieces.widened(a[EMBEDDED] + 2 * row * a[HIDDEN], a[HIDDEN], a[X] + 4 * row * a[HIDDEN])
        see(a, row)


@njit(nogil=True)
def _keep_states(a, layer, eps, t, n):  # type: ignore[no-untyped-def]
    """Writes the input of a layer, or the output of the final norm, as bfloat16."""
    rows, hidden = a[ROWS], a[HIDDEN]
    first, last = part(rows, 1, t, n)
    for row in range(first, last):
        x, out = a[X] + 4 * row * hidden, a[STATES] + 2 * (layer * rows + row) * hidden
        if layer < a[LAYERS]:
            pieces.narrowed(x, hidden, out)
        else:
            norms.normed_narrow(x, a[NORM], a[NORM_BIAS], hidden, eps, out)


@njit(nogil=True)
def _forward(a, t, n):  # type: ignore[no-untyped-def]
    eps = floats(a[NUMBERS])[0]
    _begin(a, t, n)
    barrier()
    for layer in range(a[LAYERS]):
        w = integers(a[WEIGHTS] + 8 * PER_LAYER * layer)
        if a[STATES] != 0:
            _keep_states(a, layer, eps, t, n)
        apply(a, layer, w, normed(a, w[W_NORM], w[W_NORM_BIAS], eps, t, n), a[HIDDEN], eps, t, n)
    if a[STATES] != 0:
        _keep_states(a, a[LAYERS], eps, t, n)
    logits(a, eps, t, n)


@lru_cache(maxsize=1)
def compiled() -> int:
    """The address of the program, compiled once a machine."""
    team.start()
    products.start()
    version = sources()  # a part of the key of what numba keeps

    @cfunc(types.void(types.CPointer(types.int64)), cache=True)
    def program(arguments):  # type: ignore[no-untyped-def]
        if version != "":
            _forward(arguments, thread(), threads())

    return int(program.address)
