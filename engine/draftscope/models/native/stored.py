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


def write_tile(builder: Any, rows: int, outputs: int, form: Format, arguments: Any) -> None:
    """Writes the dot products of `rows` rounded rows and `outputs` rows of weights; a block is decoded once for all.

    The arguments: address of the rounded rows, their distance in bytes; address of the weights, the distance of their
    rows; number of columns, whole blocks; address of the float32 results, the distance of one input row's from the
    next's.
    """
    x, x_step, w, w_step, length, out, out_step = arguments
    inputs = [plus(builder, x, builder.mul(x_step, i64(r))) for r in range(rows)]
    weights = [plus(builder, w, builder.mul(w_step, i64(o))) for o in range(outputs)]
    sums = [[_zero(builder) for _ in weights] for _ in inputs]
    with cgutils.for_range(builder, builder.udiv(length, i64(form.values))) as loop:
        places = [plus(builder, row, builder.mul(loop.index, i64(form.size))) for row in weights]
        for place in places:
            for line in range(0, form.size, LINE):
                prefetch(builder, plus(builder, place, i64(AHEAD + line)))
        _add_blocks(builder, form, sums, places, inputs, length, loop.index)
    for r, row in enumerate(sums):
        for o, cell in enumerate(row):
            result = plus(builder, out, builder.mul(out_step, i64(r)))
            store(builder, _total(builder, builder.load(cell)), result, 4 * o)


def _add_blocks(builder: Any, form: Format, sums: Any, places: Any, inputs: Any, length: Any, index: Any) -> None:
    """Adds the products of one block of each output and of each row."""
    blocks = [form.decode(builder, place) for place in places]
    first, factors, totals = row_parts(builder, form, length, index)
    whole: Any = None
    for vector, levels in enumerate(zip(*(block.levels for block in blocks), strict=True)):
        if vector % form.summed == 0:
            whole = [[None for _ in blocks] for _ in inputs]
        for r, row in enumerate(inputs):
            values = load(builder, plus(builder, row, first), SHORTS, 2 * LANES * vector)
            for o, level in enumerate(levels):
                products = pairs(builder, level, values)
                whole[r][o] = products if whole[r][o] is None else builder.add(whole[r][o], products)
        if (vector + 1) % form.summed == 0:
            for r, row in enumerate(inputs):
                step = load(builder, plus(builder, row, factors), FLOAT)
                for o, block in enumerate(blocks):
                    factor = _spread(builder, builder.fmul(block.factor, step))
                    _add(builder, sums[r][o], builder.sitofp(whole[r][o], EIGHT), factor)
    for r, row in enumerate(inputs):
        for o, block in enumerate(blocks):
            if block.least is not None:
                _add_least(builder, sums[r][o], block.least, plus(builder, row, totals))


def row_parts(builder: Any, form: Format, length: Any, index: Any) -> tuple[Any, Any, Any]:
    """Where, from the address of a rounded row, those of block `index` are: its values, factor, and sums of its
    `BLOCK` inputs."""
    count = form.values // BLOCK
    first = builder.mul(index, i64(2 * form.values))
    factors = plus(builder, builder.mul(length, i64(2)), builder.mul(index, i64(4)))
    after = builder.mul(length, i64(2))
    after = plus(builder, after, builder.mul(builder.udiv(length, i64(form.values)), i64(4)))
    return first, factors, plus(builder, after, builder.mul(index, i64(4 * count)))


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


def write_rounding(builder: Any, form: Format, x: Any, length: Any, out: Any) -> None:
    """Writes a split row of float32 as a rounded one: its values as int16 in order, the factor of each block, and the
    sum of every `BLOCK` inputs."""
    count = form.values // BLOCK
    with cgutils.for_range(builder, builder.udiv(length, i64(form.values))) as loop:
        block = plus(builder, x, builder.mul(loop.index, i64(4 * form.values)))
        first, factors, totals = (plus(builder, out, part) for part in row_parts(builder, form, length, loop.index))
        largest = every(0.0, VECTOR)
        for place in range(2 * count):
            size = call(builder, f"llvm.fabs.v{LANES}f32", VECTOR, [load(builder, block, VECTOR, 4 * LANES * place)])
            largest = call(builder, f"llvm.maxnum.v{LANES}f32", VECTOR, [largest, size])
        largest = call(builder, f"llvm.vector.reduce.fmax.v{LANES}f32", FLOAT, [largest])
        step = builder.fdiv(largest, ir.Constant(FLOAT, float(LARGEST)))
        none = builder.fcmp_ordered("<", largest, ir.Constant(FLOAT, SMALLEST))
        inverse = builder.fdiv(ir.Constant(FLOAT, float(LARGEST)), largest)
        inverse = builder.select(none, ir.Constant(FLOAT, 0.0), inverse)
        one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), inverse, i32(0))
        by = builder.shuffle_vector(one, one, lanes([0] * LANES))
        store(builder, step, factors)
        for part in range(count):
            even, odd = (
                _level(builder, load(builder, block, VECTOR, 4 * LANES * (2 * part + at)), by) for at in range(2)
            )
            order = [lane // 2 + LANES * (lane % 2) for lane in range(2 * LANES)]
            values = builder.shuffle_vector(even, odd, lanes(order))
            store(builder, builder.trunc(values, ir.VectorType(ir.IntType(16), 2 * LANES)), first, 2 * BLOCK * part)
            total = call(builder, f"llvm.vector.reduce.add.v{LANES}i32", I32, [builder.add(even, odd)])
            store(builder, builder.fmul(step, builder.sitofp(total, FLOAT)), totals, 4 * part)


def _level(builder: Any, values: Any, by: Any) -> Any:
    product = builder.fmul(values, by)
    return builder.fptosi(call(builder, f"llvm.rint.v{LANES}f32", VECTOR, [product]), WORDS)
