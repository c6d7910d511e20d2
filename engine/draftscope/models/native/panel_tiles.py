"""Products of input rows and panels of 16 outputs (`panels.py`), for processors with AVX512-VNNI.

An input row is rounded to 16 bits in blocks of 32, as two signed bytes, 256 high + low, so that `vpdpbusd` multiplies
and adds four levels a lane. Sums within a block are whole numbers, and blocks are added in order, so the bits of a row
do not depend on the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from draftscope.models.native.instructions import (
    BYTES,
    FLOAT,
    I32,
    LANES,
    VECTOR,
    WORDS,
    accumulator,
    add_product,
    call,
    every,
    i64,
    lanes,
    load,
    plus,
    prefetch,
    spread,
    store,
)
from draftscope.models.native.panel_decoders import DECODERS, Part
from draftscope.models.native.places import BLOCK

HIGH = 8  # bits of the low byte
LARGEST = 127 << HIGH  # level of an input
SMALLEST = 1e-30  # a block of smaller inputs is 0
GROUP = 4  # levels that one instruction multiplies in a lane
FACTOR = 2 * BLOCK  # behind the bytes of a rounded block, float32: its factor, then the sums of all its inputs,
SUM, HALF_SUMS = FACTOR + 4, FACTOR + 8  # of the first 16 and of the others
RECORD = FACTOR + 16  # bytes
AHEAD = 4096  # bytes by which weights are read from memory in advance
LINE = 64  # bytes that are read at once


def write_tile(builder: Any, kind: str, values: int, size: int, rows: int, arguments: Any) -> None:
    """Writes the products of `rows` rounded rows and the 16 outputs of a panel, whose blocks have so many values and
    bytes of an output.

    The arguments: address of the first record, distance of the records of one block from the next's; address of the
    panel; number of its blocks; address of the float32 results, the distance of one row's from the next's.
    """
    x, x_step, panel, blocks, out, out_step = arguments
    sums = [accumulator(builder) for _ in range(rows)]
    with cgutils.for_range(builder, blocks) as loop:
        block = plus(builder, panel, builder.mul(loop.index, i64(LANES * size)))
        steps, read = DECODERS[kind](builder, block)
        bytes_, inputs = LANES * size // steps, values // BLOCK // steps  # of a step
        with cgutils.for_range(builder, i64(steps)) as step:
            number = plus(builder, builder.mul(loop.index, i64(steps)), step.index)
            _prefetch(builder, plus(builder, panel, builder.mul(number, i64(bytes_))), bytes_)
            record = plus(builder, x, builder.mul(builder.mul(number, i64(inputs)), x_step))
            for parts in read(step.index):
                _add_parts(builder, sums, parts, [plus(builder, record, i64(RECORD * r)) for r in range(rows)])
                record = plus(builder, record, x_step)
    for r in range(rows):
        store(builder, builder.load(sums[r]), plus(builder, out, builder.mul(out_step, i64(r))))


def _prefetch(builder: Any, start: Any, size: int) -> None:
    for line in range(0, size, LINE):
        prefetch(builder, plus(builder, start, i64(AHEAD + line)))


def _add_parts(builder: Any, sums: list[Any], parts: Sequence[Part], records: list[Any]) -> None:
    """Adds the products of the weights of 32 inputs and each row's."""
    start = 0
    for number, part in enumerate(parts):
        high = _dots(builder, [every(0, WORDS) for _ in records], part.levels, records, start)
        high = [builder.shl(total, every(HIGH, WORDS)) for total in high]
        whole = _dots(builder, high, part.levels, records, BLOCK + start)
        for place, total, record in zip(sums, whole, records, strict=True):
            factor = _everywhere(builder, record, FACTOR)
            add_product(builder, place, builder.sitofp(total, VECTOR), builder.fmul(part.scale, factor))
            inputs = _everywhere(builder, record, HALF_SUMS + 4 * number if len(parts) > 1 else SUM)
            add_product(builder, place, part.least, inputs)
        start += GROUP * len(part.levels)


def _dots(builder: Any, totals: list[Any], levels: Any, records: list[Any], start: int) -> list[Any]:
    """Row by row the totals and the products of levels and bytes; rows take turns, so that no product waits for the
    one before it."""
    for group, level in enumerate(levels):
        for row, record in enumerate(records):
            inputs = spread(builder, load(builder, record, I32, start + GROUP * group), WORDS)
            totals[row] = call(builder, "llvm.x86.avx512.vpdpbusd.512", WORDS, [totals[row], level, inputs])
    return totals


def _everywhere(builder: Any, record: Any, place: int) -> Any:
    return spread(builder, load(builder, record, FLOAT, place), VECTOR)


def write_rounding(builder: Any, x: Any, blocks: Any, out: Any, step: Any) -> None:
    """Writes a split row of `blocks` times `BLOCK` float32 values as records `step` bytes apart, in order."""
    with cgutils.for_range(builder, blocks) as loop:
        values = plus(builder, x, builder.mul(loop.index, i64(4 * BLOCK)))
        record = plus(builder, out, builder.mul(loop.index, step))
        halves = [load(builder, values, VECTOR, 4 * LANES * half) for half in range(2)]
        sizes = [call(builder, f"llvm.fabs.v{LANES}f32", VECTOR, [half]) for half in halves]
        larger = call(builder, f"llvm.maxnum.v{LANES}f32", VECTOR, sizes)
        largest = call(builder, f"llvm.vector.reduce.fmax.v{LANES}f32", FLOAT, [larger])
        factor = builder.fdiv(largest, ir.Constant(FLOAT, float(LARGEST)))
        none = builder.fcmp_ordered("<", largest, ir.Constant(FLOAT, SMALLEST))
        inverse = builder.fdiv(ir.Constant(FLOAT, float(LARGEST)), largest)
        inverse = spread(builder, builder.select(none, ir.Constant(FLOAT, 0.0), inverse), VECTOR)
        levels = [_level(builder, half, inverse) for half in halves]
        high = [_shifted(builder, level) for level in levels]
        low = [
            builder.sub(level, builder.shl(part, every(HIGH, WORDS))) for level, part in zip(levels, high, strict=True)
        ]
        for plane, pair in enumerate((high, low)):
            order = [lane // 2 + LANES * (lane % 2) for lane in range(BLOCK)]
            bytes_ = [builder.trunc(part, BYTES) for part in pair]
            store(builder, builder.shuffle_vector(*bytes_, lanes(order)), record, BLOCK * plane)
        store(builder, factor, record, FACTOR)
        _store_sums(builder, builder.add(*levels), factor, record)


def _store_sums(builder: Any, levels: Any, factor: Any, record: Any) -> None:
    totals = []
    for half in range(2):
        part = builder.shuffle_vector(levels, levels, lanes(range(8 * half, 8 * half + 8)))
        totals.append(call(builder, "llvm.vector.reduce.add.v8i32", I32, [part]))
    for place, total in ((SUM, builder.add(*totals)), *((HALF_SUMS + 4 * half, totals[half]) for half in range(2))):
        store(builder, builder.fmul(factor, builder.sitofp(total, FLOAT)), record, place)


def _level(builder: Any, values: Any, by: Any) -> Any:
    product = builder.fmul(values, by)
    return builder.fptosi(call(builder, f"llvm.rint.v{LANES}f32", VECTOR, [product]), WORDS)


def _shifted(builder: Any, level: Any) -> Any:
    return builder.ashr(builder.add(level, every(1 << HIGH >> 1, WORDS)), every(HIGH, WORDS))
