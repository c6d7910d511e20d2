"""Products with weights as they lie in a GGUF file, a row of blocks for each output.

The blocks of an input row are rounded to 16 bits, 32767 being their largest value, and multiplied by the weights'
levels as whole numbers: exact sums, which are then multiplied by the factors of both blocks in float32 and added, block
after block, in eight lanes. So a row's bits depend neither on the number of rows nor on the processor.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from draftscope.models.native.decoders import EIGHT, SHORTS, Format
from draftscope.models.native.instructions import (
    FLOAT,
    I32,
    LANES,
    VECTOR,
    WORDS,
    call,
    every,
    i32,
    i64,
    lanes,
    load,
    pairs,
    plus,
    prefetch,
    store,
)
from draftscope.models.native.places import BLOCK

LARGEST = 32767
SMALLEST = 1e-30  # a block of smaller inputs is 0
AHEAD = 4096  # bytes by which weights are read from memory in advance
LINE = 64  # bytes that are read at once
ALIGNED = 32  # bytes


def record(form: Format) -> int:
    """Bytes of a rounded block of an input row: its values, its factor, and the sum of every `BLOCK` of its inputs. The
    records of all rows follow each other, block by block, so that a tile needs one address for them."""
    size = 2 * form.values + 4 + 4 * (form.values // BLOCK)
    return -(-size // ALIGNED) * ALIGNED


def write_tile(builder: Any, rows: int, outputs: int, form: Format, arguments: Any) -> None:
    """Writes the dot products of `rows` rounded rows and `outputs` rows of weights; a block is decoded once for all.

    The arguments: address of the first record, distance of the blocks' records in bytes; address of the weights, the
    distance of their rows; number of columns, whole blocks; address of the float32 results, the distance of one input
    row's from the next's.
    """
    x, x_step, w, w_step, length, out, out_step = arguments
    weights = [plus(builder, w, builder.mul(w_step, i64(o))) for o in range(outputs)]
    sums = [[_zero(builder) for _ in weights] for _ in range(rows)]
    with cgutils.for_range(builder, builder.udiv(length, i64(form.values))) as loop:
        places = [plus(builder, row, builder.mul(loop.index, i64(form.size))) for row in weights]
        for place in places:
            for line in range(0, form.size, LINE):
                prefetch(builder, plus(builder, place, i64(AHEAD + line)))
        _add_blocks(builder, form, sums, places, plus(builder, x, builder.mul(loop.index, x_step)))
    for r, row in enumerate(sums):
        for o, cell in enumerate(row):
            result = plus(builder, out, builder.mul(out_step, i64(r)))
            store(builder, _total(builder, builder.load(cell)), result, 4 * o)


def _add_blocks(builder: Any, form: Format, sums: Any, places: Any, records: Any) -> None:
    """Adds the products of one block of each output and of each row."""
    blocks, size = [form.decode(builder, place) for place in places], record(form)
    factors = [_spread(builder, block.factor) for block in blocks]
    whole: Any = None
    for vector, levels in enumerate(zip(*(block.levels for block in blocks), strict=True)):
        if vector % form.summed == 0:
            whole = [[None for _ in blocks] for _ in sums]
        for r, row in enumerate(whole):
            values = load(builder, records, SHORTS, r * size + 2 * LANES * vector)
            for o, level in enumerate(levels):
                products = pairs(builder, level, values)
                row[o] = products if row[o] is None else builder.add(row[o], products)
        if (vector + 1) % form.summed == 0:
            for r, row in enumerate(whole):
                step = _spread(builder, load(builder, records, FLOAT, r * size + 2 * form.values))
                for o, factor in enumerate(factors):
                    _add(builder, sums[r][o], builder.sitofp(row[o], EIGHT), builder.fmul(factor, step))
    for r, row in enumerate(sums):
        for o, block in enumerate(blocks):
            if block.least is not None:
                totals = plus(builder, records, i64(r * size + 2 * form.values + 4))
                _add_least(builder, row[o], block.least, totals)


def _add_least(builder: Any, place: Any, least: Any, totals: Any) -> None:
    if least.type == FLOAT:
        zero = ir.Constant(EIGHT, [0.0] * 8)
        total = builder.insert_element(zero, load(builder, totals, FLOAT), i32(0))
        _add(builder, place, total, _spread(builder, least))
    else:
        _add(builder, place, load(builder, totals, EIGHT), least)


def _zero(builder: Any) -> Any:
    place = cgutils.alloca_once(builder, EIGHT)
    builder.store(ir.Constant(EIGHT, [0.0] * 8), place)
    return place


def _add(builder: Any, place: Any, one: Any, other: Any) -> None:
    builder.store(call(builder, "llvm.fma.v8f32", EIGHT, [one, other, builder.load(place)]), place)


def _spread(builder: Any, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(EIGHT, ir.Undefined), value, i32(0))
    return builder.shuffle_vector(one, one, lanes([0] * 8))


def _total(builder: Any, vector: Any) -> Any:
    """The sum of eight lanes: 4 + 4, 2 + 2, 1 + 1."""
    for size in (4, 2, 1):
        halves = [builder.shuffle_vector(vector, vector, lanes(range(at, at + size))) for at in (0, size)]
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, i32(0))


def write_rounding(builder: Any, form: Format, x: Any, length: Any, out: Any, step: Any) -> None:
    """Writes a split row of float32 as records `step` bytes apart; values are in order."""
    count = form.values // BLOCK
    with cgutils.for_range(builder, builder.udiv(length, i64(form.values))) as loop:
        block = plus(builder, x, builder.mul(loop.index, i64(4 * form.values)))
        first = plus(builder, out, builder.mul(loop.index, step))
        largest = every(0.0, VECTOR)
        for place in range(2 * count):
            size = call(builder, f"llvm.fabs.v{LANES}f32", VECTOR, [load(builder, block, VECTOR, 4 * LANES * place)])
            largest = call(builder, f"llvm.maxnum.v{LANES}f32", VECTOR, [largest, size])
        largest = call(builder, f"llvm.vector.reduce.fmax.v{LANES}f32", FLOAT, [largest])
        factor = builder.fdiv(largest, ir.Constant(FLOAT, float(LARGEST)))
        none = builder.fcmp_ordered("<", largest, ir.Constant(FLOAT, SMALLEST))
        inverse = builder.fdiv(ir.Constant(FLOAT, float(LARGEST)), largest)
        inverse = builder.select(none, ir.Constant(FLOAT, 0.0), inverse)
        one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), inverse, i32(0))
        by = builder.shuffle_vector(one, one, lanes([0] * LANES))
        store(builder, factor, first, 2 * form.values)
        for part in range(count):
            even, odd = (
                _level(builder, load(builder, block, VECTOR, 4 * LANES * (2 * part + at)), by) for at in range(2)
            )
            order = [lane // 2 + LANES * (lane % 2) for lane in range(2 * LANES)]
            values = builder.shuffle_vector(even, odd, lanes(order))
            store(builder, builder.trunc(values, ir.VectorType(ir.IntType(16), 2 * LANES)), first, 2 * BLOCK * part)
            total = call(builder, f"llvm.vector.reduce.add.v{LANES}i32", I32, [builder.add(even, odd)])
            total = builder.fmul(factor, builder.sitofp(total, FLOAT))
            store(builder, total, first, 2 * form.values + 4 + 4 * part)


def _level(builder: Any, values: Any, by: Any) -> Any:
    product = builder.fmul(values, by)
    return builder.fptosi(call(builder, f"llvm.rint.v{LANES}f32", VECTOR, [product]), WORDS)
