"""The product of few rows and a weight, bfloat16 or as in a GGUF file: every weight is read from memory once.

It is compiled once and called by its name, as a library's function is: the programs that multiply would otherwise all
compile it again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import cfunc, njit, types
from numba.extending import intrinsic

from draftscope.models.native.instructions import I64, pointer
from draftscope.models.native.memory import integers
from draftscope.models.native.places import STORED
from draftscope.models.native.team import sources
from draftscope.models.native.tiles import long_vectors, tile

NAME = "draftscope_product"
SIGNATURE = types.void(*[types.int64] * 9)
PANEL = 48  # weight rows that stay in the second-level cache while all input rows are multiplied by them
PART = 3  # numbers of a part in a table: where it ends, its program, its address
ROWS = 8 if long_vectors() else 2  # input rows of a tile, as many as have accumulators in registers
WIDTHS = (0, 8, 6, 4, 4, 4, 4, 3, 3) if long_vectors() else (0, 4, 2, 1, 1, 1, 1, 1, 1)  # weight rows by input rows

_t1, _t2, _t3, _t4, _t5, _t6, _t7, _t8 = (tile(rows, WIDTHS[rows]) for rows in range(1, 9))
_single = tile(1, 1)


@njit(nogil=True)
def _wide_product(x, x_step, w, length, rows, out, out_step, first, last):  # type: ignore[no-untyped-def]
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
def _any_product(x, x_step, w, length, rows, out, out_step, first, last):  # type: ignore[no-untyped-def]
    """A product in bfloat16, or that of a weight in parts, of which each has its program."""
    if w & STORED == 0:
        _wide_product(x, x_step, w, length, rows, out, out_step, first, last)
        return
    table = integers(w - STORED)
    start = 0
    for at in range(1, 1 + PART * table[0], PART):
        end, program, part = table[at], table[at + 1], table[at + 2]
        one, other = max(first, start) - start, min(last, end) - start
        if one < other and program != 0:
            run(program, x, x_step, part, length, rows, out + 4 * start, out_step, one, other)
        elif one < other:
            _wide_product(x, x_step, part, length, rows, out + 4 * start, out_step, one, other)
        start = end


@intrinsic
def run(_context, program, x, x_step, w, length, rows, out, out_step, first, last):  # type: ignore[no-untyped-def]
    """Calls the program at an address."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        program, *others = arguments
        kind = ir.FunctionType(ir.VoidType(), [I64] * len(others))
        builder.call(pointer(builder, program, kind), others)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 10), generate


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


# out[:, first:last] = x @ w[first:last].T for split rows x; x, x_step, w, length, rows, out, out_step, first, last.
# Addresses, and distances in bytes.
product = types.ExternalFunction(NAME, SIGNATURE)


@lru_cache(maxsize=1)
def start() -> None:
    """Compiles the product, once a machine; after that whoever calls `product` can be compiled."""
    version = sources()  # a part of the key of what numba keeps

    @cfunc(SIGNATURE, cache=True)
    def program(x, x_step, w, length, rows, out, out_step, first, last):  # type: ignore[no-untyped-def]
        if version != "":
            _any_product(x, x_step, w, length, rows, out, out_step, first, last)

    llvm.add_symbol(NAME, program.address)
