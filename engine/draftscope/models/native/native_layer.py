"""One decoder layer for all rows at once, and the logits: what the compiled forwards of models and of heads share.

Between barriers each thread computes its share of the columns of a product, or of the rows or heads of what is between
products. Every value is computed by one thread in one order, so the bits depend on neither the number of rows nor, for
a given number of columns, their place in the cache.
"""

from __future__ import annotations

from numba import njit

from draftscope.models.native import norms, pieces
from draftscope.models.native.activations import activate, activate_gated
from draftscope.models.native.memory import integers
from draftscope.models.native.native_attention import attend, rotate
from draftscope.models.native.pieces import part
from draftscope.models.native.places import (
    ACTIVATED,
    ACTIVATION,
    BLOCK,
    FEW,
    GATED,
    HEAD,
    HEAD_BIAS,
    HEADS,
    HIDDEN,
    JOINED,
    KV_HEADS,
    LOGIT_ROWS,
    LOGITS,
    LOGITS_OF,
    MIXED,
    MLP,
    NORM,
    NORM_BIAS,
    PARALLEL,
    ROWS,
    SPLIT,
    TEAM,
    VOCABULARY,
    W_DOWN,
    W_DOWN_BIAS,
    W_DOWN_NORM,
    W_MLP_NORM,
    W_MLP_NORM_BIAS,
    W_OUT,
    W_OUT_BIAS,
    W_OUT_NORM,
    W_QKV,
    W_UP,
    W_UP_BIAS,
    WIDTH,
    X,
)
from draftscope.models.native.products import product
from draftscope.models.native.team import barrier


@njit(nogil=True)
def apply(a, layer, w, x, length, eps, t, n):  # type: ignore[no-untyped-def]
    """One layer of weights `w` on the residual stream; its attention reads the split rows `x` [ROWS, length]."""
    joined, mixed = (a[HEADS] + 2 * a[KV_HEADS]) * a[WIDTH], a[HEADS] * a[WIDTH]
    first, last = part(joined, BLOCK, t, n)
    product(x, 4 * length, w[W_QKV], length, a[ROWS], a[JOINED], 4 * joined, first, last)
    barrier(a[TEAM], t)
    rotate(a, layer, w, eps, t, n)
    barrier(a[TEAM], t)
    attend(a, layer, w, t, n)
    barrier(a[TEAM], t)
    if not a[PARALLEL]:
        _add_product(a, a[MIXED], w[W_OUT], mixed, w[W_OUT_BIAS], w[W_OUT_NORM], eps, t, n)
        barrier(a[TEAM], t)
    _activate(a, normed(a, w[W_MLP_NORM], w[W_MLP_NORM_BIAS], eps, t, n), w, t, n)
    barrier(a[TEAM], t)
    if a[PARALLEL]:
        _add_product(a, a[MIXED], w[W_OUT], mixed, w[W_OUT_BIAS], w[W_OUT_NORM], eps, t, n)
    _add_product(a, a[ACTIVATED], w[W_DOWN], a[MLP], w[W_DOWN_BIAS], w[W_DOWN_NORM], eps, t, n)
    barrier(a[TEAM], t)


@njit(nogil=True)
def normed(a, weight, bias, eps, t, n):  # type: ignore[no-untyped-def]
    """The address of the norms of all rows, split; of the rows themselves if `weight` is 0."""
    rows, size = a[ROWS], 4 * a[HIDDEN]
    few = rows <= FEW
    first, last = (0, rows) if few else part(rows, 1, t, n)
    out = a[SPLIT] + t * FEW * size if few else a[SPLIT]
    for row in range(first, last):
        norms.normed_row(a[X] + row * size, weight, bias, a[HIDDEN], eps, out + row * size)
    if not few:
        barrier(a[TEAM], t)
    return out


@njit(nogil=True)
def _add_product(a, x, weight, length, bias, norm, eps, t, n):  # type: ignore[no-untyped-def]
    """Adds a product of split rows `x` [ROWS, length], or the norm of that product, to the residual stream."""
    rows, hidden = a[ROWS], a[HIDDEN]
    first, last = part(hidden, BLOCK, t, n)
    product(x, 4 * length, weight, length, rows, a[JOINED], 4 * hidden, first, last)
    if bias != 0:
        for row in range(rows):
            pieces.added(a[JOINED] + 4 * row * hidden, bias, first, last)
    if norm != 0:
        barrier(a[TEAM], t)  # a norm reads the columns of all threads
    for row in range(rows):
        stream, result = a[X] + 4 * row * hidden, a[JOINED] + 4 * row * hidden
        if norm != 0:
            norms.added_norm(stream, result, norm, hidden, eps, first, last)
        else:
            pieces.added(stream, result, first, last)


@njit(nogil=True)
def _activate(a, x, w, t, n):  # type: ignore[no-untyped-def]
    """The activation of a product of the split rows `x`, times another product of them if it is gated."""
    rows, hidden, mlp = a[ROWS], a[HIDDEN], a[MLP]
    first, last = part(mlp, BLOCK, t, n)
    products = 2 if a[GATED] else 1
    step = 4 * products * mlp  # bytes of a row of gate and up
    for index in range(products):
        start, end = index * mlp + first, index * mlp + last
        product(x, 4 * hidden, w[W_UP], hidden, rows, a[JOINED], step, start, end)
        if w[W_UP_BIAS] != 0:
            for row in range(rows):
                pieces.added(a[JOINED] + row * step, w[W_UP_BIAS], start, end)
    for row in range(rows):
        gate, out = a[JOINED] + row * step, a[ACTIVATED] + 4 * row * mlp
        if a[GATED]:
            activate_gated(a[ACTIVATION], gate, gate + 4 * mlp, first, last, out)
        else:
            activate(a[ACTIVATION], gate, first, last, out)


@njit(nogil=True)
def logits(a, eps, t, n):  # type: ignore[no-untyped-def]
    hidden, rows, chosen = a[HIDDEN], a[LOGITS_OF], integers(a[LOGIT_ROWS])
    few = rows <= FEW
    first, last = (0, rows) if few else part(rows, 1, t, n)
    x = a[SPLIT] + 4 * t * FEW * hidden if few else a[SPLIT]
    for row in range(first, last):
        stream, out = a[X] + 4 * chosen[row] * hidden, x + 4 * row * hidden
        norms.normed_row(stream, a[NORM], a[NORM_BIAS], hidden, eps, out)
    if not few:
        barrier(a[TEAM], t)
    first, last = part(a[VOCABULARY], BLOCK, t, n)
    product(x, 4 * hidden, a[HEAD], hidden, rows, a[LOGITS], 4 * a[VOCABULARY], first, last)
    if a[HEAD_BIAS] != 0:
        for row in range(rows):
            pieces.added(a[LOGITS] + 4 * row * a[VOCABULARY], a[HEAD_BIAS], first, last)
