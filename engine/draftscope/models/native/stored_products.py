"""The product of rows and a weight as it lies in a GGUF file: one program for each type of tensor,
compiled when a model has a tensor of that type."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numba import cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic

from draftscope.base.compiling import kept_or_not
from draftscope.models.native.decoders import FORMATS
from draftscope.models.native.functions import function, quotient, smaller
from draftscope.models.native.instructions import ADDRESS, BYTE, I64, has, i64, plus
from draftscope.models.native.native_stored import record, write_rounding, write_tile
from draftscope.models.native.panel_products import write_panel_product
from draftscope.models.native.team import sources

SIGNATURE = types.void(*[types.int64] * 9)
MAX_ROWS = 16  # input rows that are rounded at once
PANEL = 32  # weight rows that stay in the second-level cache while all input rows are multiplied by them
ALIGNED = 64  # bytes
PANELS = "panels"
# Weight rows of a tile by input rows: as many as have accumulators in 32 vector registers, and in 16.
LONG = (0, 4, 4, 2, 2, 2, 2, 2, 2)
SHORT = (0, 2, 2, 1, 1, 1, 1)


def widths() -> tuple[int, ...]:
    return LONG if has("avx512vl") else SHORT


@lru_cache(maxsize=2 * len(FORMATS))
def program_of(kind: str, panels: bool = False) -> int:
    """The address of the program for a type of tensor, by rows as in a file or in panels, compiled once a machine, with
    the arguments of `products.product`."""
    return kept_or_not(lambda: _compiled(f"{kind} {PANELS}" if panels else kind))


def _compiled(kind: str) -> int:
    version = sources()  # a part of the key of what numba keeps

    @cfunc(SIGNATURE, cache=True)
    def program(x, x_step, w, length, rows, out, out_step, first, last):  # type: ignore[no-untyped-def]
        if version != "":
            _product(kind, x, x_step, w, length, rows, out, out_step, first, last)

    return int(program.address)


@intrinsic(prefer_literal=True)
def _product(_context, kind, x, x_step, w, length, rows, out, out_step, first, last):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, _, panels = signature.args[0].literal_value.partition(" ")
        if panels:
            write_panel_product(builder, kind, arguments[1:])
        else:
            write_product(builder, kind, widths(), arguments[1:])
        return context.get_dummy_value()

    return types.void(kind, *[ADDRESS] * 9), generate


def write_product(builder: Any, kind: str, widths: tuple[int, ...], arguments: Any) -> None:
    """The instructions of a whole product."""
    x, x_step, w, length, rows, out, out_step, first, last = arguments
    form, most = FORMATS[kind], i64(len(widths) - 1)
    w_step = builder.mul(builder.udiv(length, i64(form.values)), i64(form.size))
    size = record(form)
    records = builder.mul(builder.udiv(length, i64(form.values)), i64(size))
    records = builder.mul(records, smaller(builder, i64(MAX_ROWS), rows))
    rounded = builder.ptrtoint(builder.alloca(BYTE, plus(builder, records, i64(ALIGNED))), I64)
    rounded = builder.and_(plus(builder, rounded, i64(ALIGNED - 1)), i64(-ALIGNED))
    single = _single(builder.module, kind)
    tiles = [_tiles(builder.module, kind, count, width, single) for count, width in enumerate(widths) if count]
    with cgutils.for_range_slice(builder, i64(0), rows, i64(MAX_ROWS), I64) as (start, _):
        count = smaller(builder, i64(MAX_ROWS), builder.sub(rows, start))
        step = builder.mul(count, i64(size))
        with cgutils.for_range(builder, count) as loop:
            row = plus(builder, x, builder.mul(x_step, plus(builder, start, loop.index)))
            first_record = plus(builder, rounded, builder.mul(loop.index, i64(size)))
            write_rounding(builder, form, row, length, first_record, step)
        group = quotient(builder, count, quotient(builder, count, most))
        with (
            cgutils.for_range_slice(builder, first, last, i64(PANEL), I64) as (at, _),
            cgutils.for_range_slice(builder, i64(0), count, group, I64) as (row, _),
        ):
            inputs = plus(builder, rounded, builder.mul(row, i64(size)))
            results = plus(builder, out, builder.mul(out_step, plus(builder, start, row)))
            end = smaller(builder, last, plus(builder, at, i64(PANEL)))
            here = smaller(builder, group, builder.sub(count, row))
            for number, tile in enumerate(tiles, 1):
                with builder.if_then(builder.icmp_signed("==", here, i64(number))):
                    builder.call(tile, [inputs, step, w, w_step, length, results, out_step, at, end])


def _single(module: Any, kind: str) -> Any:
    """A function of the module that multiplies one rounded row by one row of weights."""
    builder, arguments = function(module, f"draftscope_{kind}", 7)
    write_tile(builder, 1, 1, FORMATS[kind], arguments)
    builder.ret_void()
    return builder.function


def _tiles(module: Any, kind: str, rows: int, width: int, single: Any) -> Any:
    """A function of the module that multiplies `rows` rounded rows by the weight rows from one to another."""
    builder, arguments = function(module, f"draftscope_{kind}_{rows}", 9)
    x, x_step, w, w_step, length, out, out_step, first, last = arguments
    whole = builder.sub(last, builder.urem(builder.sub(last, first), i64(width)))
    with cgutils.for_range_slice(builder, first, whole, i64(width), I64) as (at, _):
        weights, results = plus(builder, w, builder.mul(w_step, at)), plus(builder, out, builder.mul(at, i64(4)))
        write_tile(builder, rows, width, FORMATS[kind], (x, x_step, weights, w_step, length, results, out_step))
    with (
        cgutils.for_range_slice(builder, whole, last, i64(1), I64) as (at, _),
        cgutils.for_range(builder, i64(rows)) as loop,
    ):
        row = plus(builder, x, builder.mul(loop.index, i64(record(FORMATS[kind]))))
        weights, results = plus(builder, w, builder.mul(w_step, at)), plus(builder, out, builder.mul(at, i64(4)))
        result = plus(builder, results, builder.mul(out_step, loop.index))
        builder.call(single, [row, x_step, weights, w_step, length, result, out_step])
    builder.ret_void()
    return builder.function
