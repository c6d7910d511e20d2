"""Products with weights of 4 or 8 bits, read from memory as they are stored: 16 outputs at a time.

Of every `BLOCK` weights of an output, weight k is scale * level[k] + least, with levels from 0 on. An input row is
quantised to 15 bits in blocks of the same size, as two signed bytes, 128 high + low, so that `vpdpbusd` (AVX512-VNNI)
multiplies and adds four levels a lane. Sums within a block are integers, and blocks are added in order, so the bits of
a row do not depend on the number of rows. See `packing.py` for how weights lie in memory.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from draftscope.models.native.instructions import (
    ADDRESS,
    BYTE,
    BYTES,
    FLOAT,
    HALVES,
    I32,
    I64,
    LANES,
    VECTOR,
    WORDS,
    accumulator,
    add_product,
    at,
    call,
    every,
    has,
    i64,
    load,
    prefetch,
    spread,
    store,
)
from draftscope.models.native.packing import FOUR, MIDDLE, SIZES
from draftscope.models.native.places import BLOCK

GROUP = 4  # levels that one instruction multiplies in a lane
HIGH = 7  # bits of the low byte
LARGEST = 127 << HIGH  # level of an input
FACTOR, SUM = 2 * BLOCK, 2 * BLOCK + 4  # float32, behind the bytes of a block: its step, and the sum of its inputs
INPUT = 2 * BLOCK + 8  # bytes of a block of a row
SMALLEST = 1e-30  # a block of smaller inputs is 0
MAX_ROWS = 8  # as many have accumulators in registers, beside a block's levels
AHEAD = 4096  # bytes by which memory is read in advance


def available() -> bool:
    """Whether this processor has the instruction."""
    return has("avx512vnni")


def packed_tile(kind: int) -> Any:
    """A function that writes the products of quantised rows and the 16 outputs of a panel.

    Its arguments: number of rows, 1 to `MAX_ROWS`; their address, their distance in bytes; address of the panel; number
    of its blocks; address of the float32 results, the distance of one row's results from the next's.
    """

    @intrinsic
    def dots(_context, rows, x, x_step, panel, blocks, out, out_step):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            rows, *others = arguments
            for count in range(1, MAX_ROWS + 1):
                with builder.if_then(builder.icmp_signed("==", rows, i64(count))):
                    _multiply(builder, kind, count, *others)
            return context.get_dummy_value()

        return types.void(*[ADDRESS] * 7), generate

    return dots


def _multiply(
    builder: Any, kind: int, rows: int, x: Any, x_step: Any, panel: Any, blocks: Any, out: Any, out_step: Any
) -> None:
    sums = [accumulator(builder) for _ in range(rows)]
    with cgutils.for_range(builder, blocks) as loop:
        block, inputs = at(builder, panel, loop.index, SIZES[kind]), at(builder, x, loop.index, INPUT)
        prefetch(builder, builder.add(block, i64(AHEAD)))
        scale, least, levels = _block(builder, block, kind)
        for r in range(rows):
            row = builder.add(inputs, builder.mul(x_step, i64(r)))
            high, low = (_dots(builder, levels, row, plane) for plane in range(2))
            whole = builder.add(builder.shl(high, every(HIGH, WORDS)), low)
            factor, total = (spread(builder, load(builder, row, FLOAT, place), VECTOR) for place in (FACTOR, SUM))
            add_product(builder, sums[r], builder.sitofp(whole, VECTOR), builder.fmul(scale, factor))
            add_product(builder, sums[r], least, total)
    for r in range(rows):
        store(builder, builder.load(sums[r]), builder.add(out, builder.mul(out_step, i64(r))))


def _block(builder: Any, block: Any, kind: int) -> tuple[Any, Any, list[Any]]:
    """Scales and least weights of a block of 16 outputs, and its levels, `GROUP` of each output in a vector."""
    scale = builder.fpext(load(builder, block, HALVES), VECTOR)
    if kind != FOUR:
        least = builder.fmul(scale, every(-float(MIDDLE), VECTOR))
        return scale, least, [load(builder, block, WORDS, 2 * LANES + 4 * LANES * i) for i in range(BLOCK // GROUP)]
    least = builder.fpext(load(builder, block, HALVES, 2 * LANES), VECTOR)
    words = [load(builder, block, WORDS, 4 * LANES * (1 + i)) for i in range(BLOCK // GROUP // 2)]
    four, mask = every(4, WORDS), every(0x0F0F0F0F, WORDS)
    return scale, least, [builder.and_(word, mask) for word in [*words, *(builder.lshr(w, four) for w in words)]]


def _dots(builder: Any, levels: list[Any], row: Any, plane: int) -> Any:
    """The products of all levels and the high (0) or low (1) bytes of a row's block, summed."""
    total = every(0, WORDS)
    for group, level in enumerate(levels):
        inputs = spread(builder, load(builder, row, I32, BLOCK * plane + GROUP * group), WORDS)
        total = call(builder, "llvm.x86.avx512.vpdpbusd.512", WORDS, [total, level, inputs])
    return total


@intrinsic
def quantize(_context, x, blocks, out):  # type: ignore[no-untyped-def]
    """Writes a split row of `blocks` times `BLOCK` float32 values as blocks of `INPUT` bytes."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        x, blocks, out = arguments
        with cgutils.for_range(builder, blocks) as loop:
            values, block = at(builder, x, loop.index, 4 * BLOCK), at(builder, out, loop.index, INPUT)
            halves = [load(builder, values, VECTOR, 4 * LANES * half) for half in range(2)]
            sizes = [call(builder, f"llvm.fabs.v{LANES}f32", VECTOR, [half]) for half in halves]
            larger = call(builder, f"llvm.maxnum.v{LANES}f32", VECTOR, sizes)
            largest = call(builder, f"llvm.vector.reduce.fmax.v{LANES}f32", FLOAT, [larger])
            step = builder.fdiv(largest, ir.Constant(FLOAT, float(LARGEST)))
            zero = builder.fcmp_ordered("<", largest, ir.Constant(FLOAT, SMALLEST))
            inverse = builder.fdiv(ir.Constant(FLOAT, float(LARGEST)), largest)
            inverse = spread(builder, builder.select(zero, ir.Constant(FLOAT, 0.0), inverse), VECTOR)
            levels = [_rounded(builder, builder.fmul(half, inverse)) for half in halves]
            for half, level in enumerate(levels):
                high = builder.ashr(builder.add(level, every(1 << HIGH >> 1, WORDS)), every(HIGH, WORDS))
                low = builder.sub(level, builder.shl(high, every(HIGH, WORDS)))
                for plane, byte in enumerate((high, low)):
                    store(builder, builder.trunc(byte, BYTES), block, BLOCK * plane + LANES * half)
            total = call(builder, f"llvm.vector.reduce.add.v{LANES}i32", I32, [builder.add(*levels)])
            store(builder, step, block, FACTOR)
            store(builder, builder.fmul(step, builder.sitofp(total, FLOAT)), block, SUM)
        return context.get_dummy_value()

    return types.void(*[ADDRESS] * 3), generate


def _rounded(builder: Any, values: Any) -> Any:
    return builder.fptosi(call(builder, f"llvm.rint.v{LANES}f32", VECTOR, [values]), WORDS)


@intrinsic
def stack(_context, size):  # type: ignore[no-untyped-def]
    """The address of `size` bytes, until the calling function returns."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(builder.alloca(BYTE, arguments[0]), I64)

    return ADDRESS(ADDRESS), generate
