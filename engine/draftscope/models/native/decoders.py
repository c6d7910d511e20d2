"""One decoder for each type of tensor in a GGUF file that is multiplied as it lies there.

A row of a weight is a sequence of blocks. A decoder writes the instructions that read the block at an address: its
factor, what is added to its weights, and their levels as int16, 16 neighbouring columns at a time, so that a weight is
factor times level plus least. In k-quants a level is multiplied by the whole-numbered scale of its sub-block. Where the
bytes lie is described in ggml's `ggml-common.h` and in the package `gguf` (`quants.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from llvmlite import ir

from draftscope.models.native.instructions import BYTES, FLOAT, I32, LANES, i32, lanes, load, lookup

HALF, SHORT = ir.HalfType(), ir.IntType(16)
SHORTS, EIGHT = ir.VectorType(SHORT, LANES), ir.VectorType(FLOAT, 8)
BITS, FOURS = ir.VectorType(ir.IntType(1), LANES), ir.VectorType(I32, 4)
LEVELS_NL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)  # of IQ4_NL


class BlockFormat(NamedTuple):
    """A block that is being read. `least` is float32, of all weights or of each of eight sub-blocks; None: 0."""

    factor: Any  # float32
    least: Any
    levels: Iterator[Any]  # int16 vectors; they are read as they are taken


class Format(NamedTuple):
    values: int  # weights of a block
    size: int  # bytes
    decode: Callable[[Any, Any], BlockFormat]
    summed: int  # vectors of levels whose products with 16-bit inputs fit into 32 bits when they are added


def _q4_0(builder: Any, block: Any) -> BlockFormat:
    levels = (_minus(builder, level, 8) for level in _nibbles(builder, block, 2))
    return BlockFormat(_number(builder, block, 0), None, levels)


def _q4_1(builder: Any, block: Any) -> BlockFormat:
    return BlockFormat(_number(builder, block, 0), _number(builder, block, 2), _nibbles(builder, block, 4))


def _q5_0(builder: Any, block: Any) -> BlockFormat:
    levels = (_minus(builder, level, 16) for level in _fives(builder, block, 2))
    return BlockFormat(_number(builder, block, 0), None, levels)


def _q5_1(builder: Any, block: Any) -> BlockFormat:
    return BlockFormat(_number(builder, block, 0), _number(builder, block, 2), _fives(builder, block, 4))


def _q8_0(builder: Any, block: Any) -> BlockFormat:
    levels = (builder.sext(load(builder, block, BYTES, 2 + LANES * part), SHORTS) for part in range(2))
    return BlockFormat(_number(builder, block, 0), None, levels)


def _iq4_nl(builder: Any, block: Any) -> BlockFormat:
    def levels() -> Iterator[Any]:
        both, table = load(builder, block, BYTES, 2), ir.Constant(BYTES, LEVELS_NL)
        for index in (builder.and_(both, _all(15, BYTES)), builder.lshr(both, _all(4, BYTES))):
            yield builder.sext(lookup(builder, table, index), SHORTS)

    return BlockFormat(_number(builder, block, 0), None, levels())


def _q4_k(builder: Any, block: Any) -> BlockFormat:
    scales, least = _scales_k(builder, block)

    def levels() -> Iterator[Any]:
        for pair in range(4):  # of sub-blocks that share bytes
            both = [_bytes(builder, block, 16 + 32 * pair + LANES * part) for part in range(2)]
            for upper in range(2):
                scale = _splat(builder, scales, 2 * pair + upper)
                for word in both:
                    yield builder.mul(_nibble(builder, word, upper), scale)

    return BlockFormat(_number(builder, block, 0), least, levels())


def _q5_k(builder: Any, block: Any) -> BlockFormat:
    scales, least = _scales_k(builder, block)

    def levels() -> Iterator[Any]:
        fifth = [_bytes(builder, block, 16 + LANES * part) for part in range(2)]  # one bit of each sub-block
        for pair in range(4):
            both = [_bytes(builder, block, 48 + 32 * pair + LANES * part) for part in range(2)]
            for upper in range(2):
                scale = _splat(builder, scales, 2 * pair + upper)
                for word, bits in zip(both, fifth, strict=True):
                    bit = builder.and_(_right(builder, bits, 2 * pair + upper - 4), _all(16, SHORTS))
                    yield builder.mul(builder.or_(_nibble(builder, word, upper), bit), scale)

    return BlockFormat(_number(builder, block, 0), least, levels())


def _q6_k(builder: Any, block: Any) -> BlockFormat:
    scales = builder.sext(load(builder, block, BYTES, 192), SHORTS)

    def levels() -> Iterator[Any]:
        for half in range(2):
            low = [_bytes(builder, block, 64 * half + LANES * part) for part in range(4)]
            high = [_bytes(builder, block, 128 + 32 * half + LANES * part) for part in range(2)]
            for place in range(8):
                bits = builder.and_(_right(builder, high[place % 2], place // 2 * 2 - 4), _all(48, SHORTS))
                level = builder.or_(_nibble(builder, low[place % 4], place // 4), bits)
                yield builder.mul(_minus(builder, level, 32), _splat(builder, scales, 8 * half + place))

    return BlockFormat(_number(builder, block, 208), None, levels())


FORMATS = {
    "Q4_0": Format(32, 18, _q4_0, 2),
    "Q4_1": Format(32, 20, _q4_1, 2),
    "Q5_0": Format(32, 22, _q5_0, 2),
    "Q5_1": Format(32, 24, _q5_1, 2),
    "Q8_0": Format(32, 34, _q8_0, 2),
    "Q4_K": Format(256, 144, _q4_k, 16),
    "Q5_K": Format(256, 176, _q5_k, 16),
    "Q6_K": Format(256, 210, _q6_k, 8),
    "IQ4_NL": Format(32, 18, _iq4_nl, 2),
}


def _all(value: int, kind: Any) -> Any:
    return ir.Constant(kind, [value] * kind.count)


def _number(builder: Any, block: Any, offset: int) -> Any:
    """A float16 of a block as float32."""
    return builder.fpext(load(builder, block, HALF, offset), FLOAT)


def _bytes(builder: Any, block: Any, offset: int) -> Any:
    return builder.zext(load(builder, block, BYTES, offset), SHORTS)


def _nibble(builder: Any, word: Any, upper: int) -> Any:
    """The lower or the upper four bits of bytes."""
    return builder.lshr(word, _all(4, SHORTS)) if upper else builder.and_(word, _all(15, SHORTS))


def _nibbles(builder: Any, block: Any, offset: int) -> Iterator[Any]:
    both = _bytes(builder, block, offset)
    for upper in range(2):
        yield _nibble(builder, both, upper)


def _fives(builder: Any, block: Any, offset: int) -> Iterator[Any]:
    """Levels of five bits: first the fifth ones of all weights, then the other four."""
    for part, level in enumerate(_nibbles(builder, block, offset + 4)):
        bits = builder.bitcast(load(builder, block, SHORT, offset + 2 * part), BITS)
        yield builder.or_(level, builder.select(bits, _all(16, SHORTS), _all(0, SHORTS)))


def _minus(builder: Any, level: Any, middle: int) -> Any:
    return builder.sub(level, _all(middle, SHORTS))


def _right(builder: Any, word: Any, bits: int) -> Any:
    """Moved to the right by a number of bits, or to the left if it is negative."""
    if bits == 0:
        return word
    return builder.lshr(word, _all(bits, SHORTS)) if bits > 0 else builder.shl(word, _all(-bits, SHORTS))


def _splat(builder: Any, vector: Any, lane: int) -> Any:
    return builder.shuffle_vector(vector, vector, lanes([lane] * LANES))


def _scales_k(builder: Any, block: Any) -> tuple[Any, Any]:
    """Of a Q4_K or Q5_K the scales of its eight sub-blocks, int16 in the first lanes, and their least weights."""
    first, second, third = (load(builder, block, I32, offset) for offset in (4, 8, 12))
    six, four, two = i32(0x3F3F3F3F), i32(0x0F0F0F0F), i32(0x30303030)
    upper = [builder.and_(builder.lshr(word, i32(2)), two) for word in (first, second)]
    lower = [builder.and_(third, four), builder.and_(builder.lshr(third, i32(4)), four)]
    parts = [builder.and_(first, six), builder.or_(lower[0], upper[0])]
    parts += [builder.and_(second, six), builder.or_(lower[1], upper[1])]
    words = ir.Constant(FOURS, ir.Undefined)
    for place, part in enumerate(parts):
        words = builder.insert_element(words, part, i32(place))
    scales = builder.bitcast(words, BYTES)
    least = builder.uitofp(builder.shuffle_vector(scales, scales, lanes(range(8, 16))), EIGHT)
    by = builder.fneg(_number(builder, block, 2))
    one = builder.insert_element(ir.Constant(EIGHT, ir.Undefined), by, i32(0))
    return builder.zext(scales, SHORTS), builder.fmul(least, builder.shuffle_vector(one, one, lanes([0] * 8)))
