"""The vector code of the native forward: dot products and weighted sums over bfloat16 rows, as LLVM instructions.

A row of bfloat16 is read as it lies in memory, 32 values at a time, and widened to two vectors of 16 float32: the even
values and the odd ones. What it is multiplied by is kept in float32 in the same order, *split*: of every 32 values
first the 16 even ones, then the 16 odd ones. Each result has one accumulator and one order of additions, whatever else
is computed with it, so its bits do not depend on the number of rows. On processors with shorter vectors LLVM divides
each into several, with the same bits.

On the processor this was measured on, `vdpbf16ps` (AVX512-bf16) does half as many multiplications a second as float32
FMAs on widened weights; see assets/results/FINDINGS.md.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from draftscope.models.native.instructions import (
    ADDRESS,
    FLOAT,
    I32,
    I64,
    LANES,
    VECTOR,
    WORDS,
    accumulator,
    add_product,
    has,
    i32,
    i64,
    lanes,
    load,
    plus,
    pointer,
    prefetch,
    spread,
)
from draftscope.models.native.places import BLOCK

AHEAD = 8  # weight rows by which memory is read in advance; 0 to 32 were tried


def long_vectors() -> bool:
    """Whether this processor has 32 vector registers of 16 float32; others have at most half of that."""
    return has("avx512f")


def tile(rows: int, outputs: int) -> Any:
    """A function that writes the dot products of `rows` split rows and `outputs` bfloat16 rows.

    Its arguments: address of the split rows, their distance in bytes; address of the bfloat16 rows, their distance;
    length, a multiple of `BLOCK`; address of the float32 results, the distance of one input row's results from the
    next's.
    """

    @intrinsic
    def dots(_context, x, x_step, w, w_step, length, out, out_step):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            x, x_step, w, w_step, length, out, out_step = arguments
            sums = [[accumulator(builder) for _ in range(outputs)] for _ in range(rows)]
            ahead = builder.mul(w_step, i64(AHEAD))
            with cgutils.for_range(builder, builder.udiv(length, i64(BLOCK))) as loop:
                at = plus(builder, w, builder.mul(loop.index, i64(2 * BLOCK)))
                weights = []
                for o in range(outputs):
                    row = plus(builder, at, builder.mul(w_step, i64(o)))
                    weights.append(_widened(builder, row))
                    prefetch(builder, plus(builder, row, ahead))
                at = plus(builder, x, builder.mul(loop.index, i64(4 * BLOCK)))
                for r in range(rows):
                    row = plus(builder, at, builder.mul(x_step, i64(r)))
                    for half in range(2):
                        values = load(builder, plus(builder, row, i64(half * 4 * LANES)), VECTOR)
                        for o in range(outputs):
                            add_product(builder, sums[r][o], values, weights[o][half])
            totals = _totals(builder, [builder.load(cell) for row in sums for cell in row])
            for place, total in enumerate(totals):
                row = plus(builder, out, builder.mul(out_step, i64(place // outputs)))
                at = plus(builder, row, i64(4 * (place % outputs)))
                builder.store(total, pointer(builder, at, FLOAT), align=4)
            return context.get_dummy_value()

        return types.void(*[ADDRESS] * 7), generate

    return dots


def mix(blocks: int) -> Any:
    """A function that writes the weighted sum of chosen bfloat16 rows of `blocks` times `BLOCK` values, split.

    Its arguments: address of the float32 weights; address of the int32 indices of the rows; their number; address of
    row 0; distance of the rows in bytes; address of the result. Rows are added in the order of the indices.
    """

    @intrinsic
    def mixed(_context, weights, indices, count, rows, step, out):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            weights, indices, count, rows, step, out = arguments
            sums = [accumulator(builder) for _ in range(2 * blocks)]
            with cgutils.for_range(builder, count) as loop:
                at = builder.mul(loop.index, i64(4))
                index = builder.load(pointer(builder, plus(builder, indices, at), I32), align=4)
                row = plus(builder, rows, builder.mul(step, builder.sext(index, I64)))
                weight = builder.load(pointer(builder, plus(builder, weights, at), FLOAT), align=4)
                everywhere = spread(builder, weight, VECTOR)
                for block in range(blocks):
                    halves = _widened(builder, plus(builder, row, i64(2 * BLOCK * block)))
                    for half in range(2):
                        add_product(builder, sums[2 * block + half], everywhere, halves[half])
            for place, total in enumerate(sums):
                at = plus(builder, out, i64(4 * LANES * place))
                builder.store(builder.load(total), pointer(builder, at, VECTOR), align=4)
            return context.get_dummy_value()

        return types.void(*[ADDRESS] * 6), generate

    return mixed


def _widened(builder: Any, address: Any) -> tuple[Any, Any]:
    """The even and the odd ones of `BLOCK` bfloat16 values."""
    words = load(builder, address, WORDS)
    even = builder.shl(words, ir.Constant(WORDS, [16] * LANES))
    odd = builder.and_(words, ir.Constant(WORDS, [-(1 << 16)] * LANES))
    return builder.bitcast(even, VECTOR), builder.bitcast(odd, VECTOR)


def _totals(builder: Any, vectors: list[Any]) -> list[Any]:
    """The sum of the lanes of each vector; always halves 8 + 8, 4 + 4, 2 + 2 and 1 + 1, in groups or alone."""
    totals, whole = [], len(vectors) // 4 * 4
    for start in range(0, whole, 4):
        one, two, three, four = vectors[start : start + 4]
        fours = _joined(builder, _joined(builder, one, two, 8), _joined(builder, three, four, 8), 4)
        for distance in (2, 1):
            swapped = builder.shuffle_vector(fours, fours, lanes([lane ^ distance for lane in range(LANES)]))
            fours = builder.fadd(fours, swapped)
        totals += [builder.extract_element(fours, i32(lane)) for lane in (0, 4, 8, 12)]
    return totals + [_total(builder, vector) for vector in vectors[whole:]]


def _joined(builder: Any, one: Any, other: Any, size: int) -> Any:
    """Groups of 2 `size` lanes of two vectors, each folded to `size` lanes, those of `one` first."""
    groups = range(0, 2 * LANES, 2 * size)
    low = [lane for group in groups for lane in range(group, group + size)]
    both = [builder.shuffle_vector(one, other, lanes([lane + more for lane in low])) for more in (0, size)]
    return builder.fadd(*both)


def _total(builder: Any, vector: Any) -> Any:
    size = LANES
    while size > 1:
        size //= 2
        halves = [builder.shuffle_vector(vector, vector, lanes(range(at, at + size))) for at in (0, size)]
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, i32(0))
