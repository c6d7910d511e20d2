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

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from draftscope.models.native.places import BLOCK

LANES = 16
AHEAD = 8  # weight rows by which memory is read in advance; 0 to 32 were tried

_FLOAT, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR, _WORDS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_I32, LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)
_ADDRESS = types.int64


def long_vectors() -> bool:
    """Whether this processor has 32 vector registers of 16 float32; others have at most half of that."""
    forced = config.CPU_FEATURES  # NUMBA_CPU_FEATURES, with which another processor's path is tried
    return "+avx512f" in forced if forced is not None else bool(llvm.get_host_cpu_features().get("avx512f"))


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
            sums = [[_accumulator(builder) for _ in range(outputs)] for _ in range(rows)]
            ahead = builder.mul(w_step, _i64(AHEAD))
            with cgutils.for_range(builder, builder.udiv(length, _i64(BLOCK))) as loop:
                at = _plus(builder, w, builder.mul(loop.index, _i64(2 * BLOCK)))
                weights = []
                for o in range(outputs):
                    row = _plus(builder, at, builder.mul(w_step, _i64(o)))
                    weights.append(_widened(builder, row))
                    _prefetch(builder, _plus(builder, row, ahead))
                at = _plus(builder, x, builder.mul(loop.index, _i64(4 * BLOCK)))
                for r in range(rows):
                    row = _plus(builder, at, builder.mul(x_step, _i64(r)))
                    for half in range(2):
                        values = _load(builder, _plus(builder, row, _i64(half * 4 * LANES)), _VECTOR)
                        for o in range(outputs):
                            _add_product(builder, sums[r][o], values, weights[o][half])
            totals = _totals(builder, [builder.load(cell) for row in sums for cell in row])
            for place, total in enumerate(totals):
                row = _plus(builder, out, builder.mul(out_step, _i64(place // outputs)))
                at = _plus(builder, row, _i64(4 * (place % outputs)))
                builder.store(total, _pointer(builder, at, _FLOAT), align=4)
            return context.get_dummy_value()

        return types.void(*[_ADDRESS] * 7), generate

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
            sums = [_accumulator(builder) for _ in range(2 * blocks)]
            with cgutils.for_range(builder, count) as loop:
                at = builder.mul(loop.index, _i64(4))
                index = builder.load(_pointer(builder, _plus(builder, indices, at), _I32), align=4)
                row = _plus(builder, rows, builder.mul(step, builder.sext(index, _I64)))
                weight = builder.load(_pointer(builder, _plus(builder, weights, at), _FLOAT), align=4)
                one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), weight, _i32(0))
                every = builder.shuffle_vector(one, one, _lanes([0] * LANES))
                for block in range(blocks):
                    halves = _widened(builder, _plus(builder, row, _i64(2 * BLOCK * block)))
                    for half in range(2):
                        _add_product(builder, sums[2 * block + half], every, halves[half])
            for place, total in enumerate(sums):
                at = _plus(builder, out, _i64(4 * LANES * place))
                builder.store(builder.load(total), _pointer(builder, at, _VECTOR), align=4)
            return context.get_dummy_value()

        return types.void(*[_ADDRESS] * 6), generate

    return mixed


def _accumulator(builder: Any) -> Any:
    place = cgutils.alloca_once(builder, _VECTOR)
    builder.store(_ZERO, place)
    return place


def _add_product(builder: Any, place: Any, one: Any, other: Any) -> None:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")
    builder.store(builder.call(fma, [one, other, builder.load(place)]), place)


def _widened(builder: Any, address: Any) -> tuple[Any, Any]:
    """The even and the odd ones of `BLOCK` bfloat16 values."""
    words = _load(builder, address, _WORDS)
    even = builder.shl(words, ir.Constant(_WORDS, [16] * LANES))
    odd = builder.and_(words, ir.Constant(_WORDS, [-(1 << 16)] * LANES))
    return builder.bitcast(even, _VECTOR), builder.bitcast(odd, _VECTOR)


def _totals(builder: Any, vectors: list[Any]) -> list[Any]:
    """The sum of the lanes of each vector; always halves 8 + 8, 4 + 4, 2 + 2 and 1 + 1, in groups or alone."""
    totals, whole = [], len(vectors) // 4 * 4
    for start in range(0, whole, 4):
        one, two, three, four = vectors[start : start + 4]
        fours = _joined(builder, _joined(builder, one, two, 8), _joined(builder, three, four, 8), 4)
        for distance in (2, 1):
            swapped = builder.shuffle_vector(fours, fours, _lanes([lane ^ distance for lane in range(LANES)]))
            fours = builder.fadd(fours, swapped)
        totals += [builder.extract_element(fours, _i32(lane)) for lane in (0, 4, 8, 12)]
    return totals + [_total(builder, vector) for vector in vectors[whole:]]


def _joined(builder: Any, one: Any, other: Any, size: int) -> Any:
    """Groups of 2 `size` lanes of two vectors, each folded to `size` lanes, those of `one` first."""
    groups = range(0, 2 * LANES, 2 * size)
    low = [lane for group in groups for lane in range(group, group + size)]
    both = [builder.shuffle_vector(one, other, _lanes([lane + more for lane in low])) for more in (0, size)]
    return builder.fadd(*both)


def _total(builder: Any, vector: Any) -> Any:
    size = LANES
    while size > 1:
        size //= 2
        halves = [builder.shuffle_vector(vector, vector, _lanes(range(at, at + size))) for at in (0, size)]
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, _i32(0))


def _load(builder: Any, address: Any, kind: Any) -> Any:
    return builder.load(_pointer(builder, address, kind), align=2)


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _prefetch(builder: Any, address: Any) -> None:
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(prefetch, [_pointer(builder, address, ir.IntType(8)), _i32(0), _i32(2), _i32(1)])


def _plus(builder: Any, one: Any, other: Any) -> Any:
    return builder.add(one, other)


def _lanes(lanes: Any) -> Any:
    lanes = list(lanes)
    return ir.Constant(ir.VectorType(_I32, len(lanes)), lanes)


def _i32(value: int) -> Any:
    return ir.Constant(_I32, value)


def _i64(value: int) -> Any:
    return ir.Constant(_I64, value)
