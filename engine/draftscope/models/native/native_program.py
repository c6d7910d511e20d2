"""The programs, each one call on all threads: a forward of a decoder, the step of `native_head.py`, and a product of
rows and a bfloat16 weight, for modules outside both."""

from __future__ import annotations

from functools import lru_cache

from numba import cfunc, njit, types

from draftscope.models.native import norms, pieces, products, team
from draftscope.models.native.instructions import LANES
from draftscope.models.native.memory import floats, halves, integers, wide
from draftscope.models.native.native_attention import see
from draftscope.models.native.native_head import step
from draftscope.models.native.native_layer import apply, logits, normed
from draftscope.models.native.pieces import narrowed, part
from draftscope.models.native.places import (
    BLOCK,
    EMBEDDED,
    EXACT,
    HIDDEN,
    LAYERS,
    M_LENGTH,
    M_OUT,
    M_OUTPUTS,
    M_PRODUCT,
    M_ROWS,
    M_SPLIT,
    M_TEAM,
    M_WEIGHT,
    M_X,
    NORM,
    NORM_BIAS,
    NUMBERS,
    PER_LAYER,
    ROWS,
    STATES,
    TEAM,
    W_NORM,
    W_NORM_BIAS,
    WEIGHTS,
    X,
)
from draftscope.models.native.products import product
from draftscope.models.native.team import barrier, guarded, sources, thread, threads

SIGNATURE = types.void(types.CPointer(types.int64))


@njit(nogil=True)
def _begin(a, t, n):  # type: ignore[no-untyped-def]
    """The residual stream from the embeddings, and the columns that each row attends to."""
    first, last = part(a[ROWS], 1, t, n)
    for row in range(first, last):
        stream = a[X] + 4 * row * a[HIDDEN]
        if a[EXACT]:
            pieces.copied(a[EMBEDDED] + 4 * row * a[HIDDEN], a[HIDDEN], stream)
        else:
            pieces.widened(a[EMBEDDED] + 2 * row * a[HIDDEN], a[HIDDEN], stream)
        see(a, row)


@njit(nogil=True)
def _keep_states(a, layer, eps, t, n):  # type: ignore[no-untyped-def]
    """Writes the input of a layer, the output of the final norm (LAYERS) or its input (LAYERS + 1), as bfloat16."""
    rows, hidden = a[ROWS], a[HIDDEN]
    first, last = part(rows, 1, t, n)
    for row in range(first, last):
        x, out = a[X] + 4 * row * hidden, a[STATES] + 2 * (layer * rows + row) * hidden
        if layer != a[LAYERS]:
            pieces.narrowed(x, hidden, out)
        else:
            norms.normed_narrow(x, a[NORM], a[NORM_BIAS], hidden, eps, out)


@njit(nogil=True)
def _forward(a, t, n):  # type: ignore[no-untyped-def]
    eps = floats(a[NUMBERS])[0]
    _begin(a, t, n)
    barrier(a[TEAM], t)
    for layer in range(a[LAYERS]):
        w = integers(a[WEIGHTS] + 8 * PER_LAYER * layer)
        if a[STATES] != 0:
            _keep_states(a, layer, eps, t, n)
        apply(a, layer, w, normed(a, w[W_NORM], w[W_NORM_BIAS], eps, t, n), a[HIDDEN], eps, t, n)
    if a[STATES] != 0:
        _keep_states(a, a[LAYERS], eps, t, n)
        _keep_states(a, a[LAYERS] + 1, eps, t, n)
    logits(a, eps, t, n)


@njit(nogil=True)
def _multiply(a, t, n):  # type: ignore[no-untyped-def]
    rows, length, outputs = a[M_ROWS], a[M_LENGTH], a[M_OUTPUTS]
    x, split = halves(a[M_X]), floats(a[M_SPLIT])
    first, last = part(rows * length, BLOCK, t, n)
    for block in range(first, last, BLOCK):
        for lane in range(LANES):
            split[block + lane] = wide(x[block + 2 * lane])
            split[block + LANES + lane] = wide(x[block + 2 * lane + 1])
    if n > 1:
        barrier(a[M_TEAM], t)
    first, last = part(outputs, BLOCK, t, n)
    product(a[M_SPLIT], 4 * length, a[M_WEIGHT], length, rows, a[M_PRODUCT], 4 * outputs, first, last)
    if a[M_OUT] != 0:
        for row in range(rows):
            at = row * outputs + first
            narrowed(a[M_PRODUCT] + 4 * at, last - first, a[M_OUT] + 2 * at)


_forward_whole, _multiply_whole, _step_whole = guarded(_forward), guarded(_multiply), guarded(step)


@lru_cache(maxsize=1)
def compiled() -> tuple[int, int, int]:
    """The addresses of the forward, the product and the head's step, compiled once a machine."""
    team.start()
    products.start()
    version = sources()  # a part of the key of what numba keeps

    @cfunc(SIGNATURE, cache=True)
    def forward_program(arguments):  # type: ignore[no-untyped-def]
        if version != "":
            _forward_whole(arguments, TEAM, thread(), threads())

    @cfunc(SIGNATURE, cache=True)
    def product_program(arguments):  # type: ignore[no-untyped-def]
        if version != "":
            _multiply_whole(arguments, M_TEAM, thread(), threads())

    @cfunc(SIGNATURE, cache=True)
    def head_program(arguments):  # type: ignore[no-untyped-def]
        if version != "":
            _step_whole(arguments, TEAM, thread(), threads())

    return forward_program.address, product_program.address, head_program.address
