"""The product of rows and a weight in panels of 16 outputs: what `stored_products.py` compiles for processors with
AVX512-VNNI."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils

from draftscope.models.native.decoders import FORMATS
from draftscope.models.native.functions import function, quotient, smaller
from draftscope.models.native.instructions import BYTE, I64, LANES, has, i64, plus
from draftscope.models.native.panel_tiles import RECORD, write_rounding, write_tile
from draftscope.models.native.places import BLOCK

MAX_ROWS = 16  # input rows that are rounded at once
TILE = 8  # as many have accumulators in registers, beside a block's levels
ALIGNED = 64  # bytes


def available() -> bool:
    """Whether this processor has the instructions."""
    return has("avx512vnni") and has("avx512bw")


def write_panel_product(builder: Any, kind: str, arguments: Any) -> None:
    """The instructions of a whole product, whose outputs are whole panels."""
    x, x_step, w, length, rows, out, out_step, first, last = arguments
    form, count_of = FORMATS[kind], builder.udiv(length, i64(BLOCK))
    blocks = builder.udiv(length, i64(form.values))
    panel_size = builder.mul(blocks, i64(LANES * form.size))
    most = smaller(builder, i64(MAX_ROWS), rows)
    size = builder.mul(builder.mul(count_of, i64(RECORD)), most)
    rounded = builder.ptrtoint(builder.alloca(BYTE, plus(builder, size, i64(ALIGNED))), I64)
    rounded = builder.and_(plus(builder, rounded, i64(ALIGNED - 1)), i64(-ALIGNED))
    tiles = [_tile(builder.module, kind, number) for number in range(1, TILE + 1)]
    with cgutils.for_range_slice(builder, i64(0), rows, i64(MAX_ROWS), I64) as (start, _):
        count = smaller(builder, i64(MAX_ROWS), builder.sub(rows, start))
        step = builder.mul(count, i64(RECORD))
        with cgutils.for_range(builder, count) as loop:
            row = plus(builder, x, builder.mul(x_step, plus(builder, start, loop.index)))
            write_rounding(builder, row, count_of, plus(builder, rounded, builder.mul(loop.index, i64(RECORD))), step)
        group = quotient(builder, count, quotient(builder, count, i64(TILE)))
        with (
            cgutils.for_range_slice(builder, first, last, i64(LANES), I64) as (at, _),
            cgutils.for_range_slice(builder, i64(0), count, group, I64) as (row, _),
        ):
            panel = plus(builder, w, builder.mul(builder.udiv(at, i64(LANES)), panel_size))
            results = plus(builder, out, builder.mul(out_step, plus(builder, start, row)))
            results = plus(builder, results, builder.mul(at, i64(4)))
            here = smaller(builder, group, builder.sub(count, row))
            inputs = plus(builder, rounded, builder.mul(row, i64(RECORD)))
            for number, tile in enumerate(tiles, 1):
                with builder.if_then(builder.icmp_signed("==", here, i64(number))):
                    builder.call(tile, [inputs, step, panel, blocks, results, out_step])


def _tile(module: Any, kind: str, rows: int) -> Any:
    """A function of the module that multiplies `rows` rounded rows by a panel."""
    builder, arguments = function(module, f"draftscope_panel_{kind}_{rows}", 6)
    write_tile(builder, kind, FORMATS[kind].values, FORMATS[kind].size, rows, arguments)
    builder.ret_void()
    return builder.function
