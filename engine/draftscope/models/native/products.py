"""The product of few rows and a bfloat16 weight: every weight is read from memory once."""

from __future__ import annotations

from numba import njit

from draftscope.models.native.tiles import long_vectors, tile

PANEL = 48  # weight rows that stay in the second-level cache while all input rows are multiplied by them
ROWS = 8 if long_vectors() else 2  # input rows of a tile, as many as have accumulators in registers
WIDTHS = (0, 8, 6, 4, 4, 4, 4, 3, 3) if long_vectors() else (0, 4, 2, 1, 1, 1, 1, 1, 1)  # weight rows by input rows

_t1, _t2, _t3, _t4, _t5, _t6, _t7, _t8 = (tile(rows, WIDTHS[rows]) for rows in range(1, 9))
_single = tile(1, 1)


@njit(nogil=True)
def product(x, x_step, w, length, rows, out, out_step, first, last):  # type: ignore[no-untyped-def]
    """out[:, first:last] = x @ w[first:last].T for split rows x. Addresses, and distances in bytes."""
    for start in range(first, last, PANEL):
        end = min(last, start + PANEL)
        row = 0
        while row < rows:
            left = rows - row
            groups = (left + ROWS - 1) // ROWS
            count = (left + groups - 1) // groups
            _panel(x + row * x_step, x_step, w, length, count, out + row * out_step, out_step, start, end)
            row += count


@njit(nogil=True)
def _panel(x, x_step, w, length, rows, out, out_step, first, last):  # type: ignore[no-untyped-def]
    step, at, width = 2 * length, first, WIDTHS[rows]
    while at + width <= last:
        _tile(x, x_step, w + at * step, step, length, rows, out + 4 * at, out_step)
        at += width
    while at < last:
        for row in range(rows):
            _single(x + row * x_step, x_step, w + at * step, step, length, out + 4 * at + row * out_step, out_step)
        at += 1


@njit(nogil=True)
def _tile(x, x_step, w, w_step, length, rows, out, out_step):  # type: ignore[no-untyped-def]
    if rows == 1:
        _t1(x, x_step, w, w_step, length, out, out_step)
    elif rows == 2:
        _t2(x, x_step, w, w_step, length, out, out_step)
    elif rows == 3:
        _t3(x, x_step, w, w_step, length, out, out_step)
    elif rows == 4:
        _t4(x, x_step, w, w_step, length, out, out_step)
    elif rows == 5:
        _t5(x, x_step, w, w_step, length, out, out_step)
    elif rows == 6:
        _t6(x, x_step, w, w_step, length, out, out_step)
    elif rows == 7:
        _t7(x, x_step, w, w_step, length, out, out_step)
    else:
        _t8(x, x_step, w, w_step, length, out, out_step)
