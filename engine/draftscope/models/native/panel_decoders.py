"""One decoder for each type of tensor in a GGUF file that lies in memory in panels of 16 outputs (`panels.py`).

A decoder writes the instructions that read a block of a panel, in steps that a loop repeats: for every 32 inputs the
scales and least weights of the 16 outputs and their levels, unsigned bytes, of four neighbouring inputs of every output
in a vector. A weight is scale times level plus least; in k-quants the scale of a sub-block is applied to the sum of its
products, not to every level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils

from draftscope.models.native.decoders import LEVELS_NL
from draftscope.models.native.instructions import (
    BYTE,
    HALVES,
    I32,
    I64,
    LANES,
    VECTOR,
    WORDS,
    call,
    every,
    i32,
    i64,
    load,
    plus,
    spread,
    store,
)

GROUPS = 8  # vectors of levels of 32 inputs
LINE = 64  # bytes of a vector of words
MANY, SHORTS = ir.VectorType(BYTE, LINE), ir.VectorType(ir.IntType(16), LANES)
FOURS, SIXES, TWOS, ONES = 0x0F0F0F0F, 0x3F3F3F3F, 0x30303030, 0x10101010  # of the four bytes of a word


class Part(NamedTuple):
    """The weights of 32 or 16 inputs of 16 outputs: float32 scales and least weights, and the levels."""

    scale: Any
    least: Any
    levels: Sequence[Any]


Parts = Iterator[Sequence[Part]]  # of every 32 inputs


class Block(NamedTuple):
    """A block that is being read in some steps; `read(step)` writes the instructions of one, with its number."""

    steps: int
    read: Callable[[Any], Parts]


def _q4_0(builder: Any, block: Any) -> Block:
    scale, rest = _factor(builder, block)
    return _single([_around(builder, scale, 8, _nibbles(builder, rest))])


def _q4_1(builder: Any, block: Any) -> Block:
    return _single([Part(*_factors(builder, block), _nibbles(builder, _behind(builder, block, 1)))])


def _q5_0(builder: Any, block: Any) -> Block:
    scale, rest = _factor(builder, block)
    return _single([_around(builder, scale, 16, _fives(builder, rest))])


def _q5_1(builder: Any, block: Any) -> Block:
    return _single([Part(*_factors(builder, block), _fives(builder, _behind(builder, block, 1)))])


def _q8_0(builder: Any, block: Any) -> Block:
    scale, rest = _factor(builder, block)
    return _single([_around(builder, scale, 128, _words(builder, rest, 0, GROUPS))])


def _iq4_nl(builder: Any, block: Any) -> Block:
    scale, rest = _factor(builder, block)
    table = ir.Constant(MANY, [level + 128 for level in LEVELS_NL] * 4)
    levels = []
    for index in _nibbles(builder, rest):
        level = call(builder, "llvm.x86.avx512.pshuf.b.512", MANY, [table, builder.bitcast(index, MANY)])
        levels.append(builder.bitcast(level, WORDS))
    return _single([_around(builder, scale, 128, levels)])


def _q4_k(builder: Any, block: Any) -> Block:
    scales = _scales_k(builder, block)

    def read(pair: Any) -> Parts:  # of sub-blocks that share bytes
        words = _words(builder, _behind(builder, block, 4, pair, GROUPS), 0, GROUPS)
        for upper, factors in enumerate(scales(pair)):
            yield [Part(*factors, [_nibble(builder, word, upper) for word in words])]

    return Block(4, read)


def _q5_k(builder: Any, block: Any) -> Block:
    scales = _scales_k(builder, block)

    def read(pair: Any) -> Parts:
        words = _words(builder, _behind(builder, block, 12, pair, GROUPS), 0, GROUPS)
        for upper, factors in enumerate(scales(pair)):
            place = builder.add(builder.mul(builder.trunc(pair, I32), i32(2)), i32(upper))
            by = spread(builder, builder.and_(builder.sub(i32(4), place), i32(31)), WORDS)
            levels = []
            for word, fifth in zip(words, _words(builder, block, 4, GROUPS), strict=True):  # a bit of each sub-block
                moved = call(builder, f"llvm.fshl.v{LANES}i32", WORDS, [fifth, fifth, by])
                levels.append(builder.or_(_nibble(builder, word, upper), _and(builder, moved, ONES)))
            yield [Part(*factors, levels)]

    return Block(4, read)


def _q6_k(builder: Any, block: Any) -> Block:
    factor, rest = _factor(builder, block)

    def read(half: Any) -> Parts:
        high = _behind(builder, rest, 32, half, GROUPS)
        scales = _words(builder, _behind(builder, rest, 48, half, 2), 0, 2)
        for quarter in range(4):
            low = _behind(builder, rest, GROUPS * (quarter % 2), half, 2 * GROUPS)
            levels = []
            for four, two in zip(_words(builder, low, 0, GROUPS), _words(builder, high, 0, GROUPS), strict=True):
                upper = _and(builder, _right(builder, two, 2 * quarter - 4), TWOS)
                levels.append(builder.or_(_nibble(builder, four, quarter // 2), upper))
            parts = []
            for part in range(2):
                byte = _right(builder, scales[quarter // 2], 16 * (quarter % 2) + 8 * part - 24)
                scale = builder.fmul(builder.sitofp(builder.ashr(byte, every(24, WORDS)), VECTOR), factor)
                parts.append(_around(builder, scale, 32, levels[4 * part : 4 * part + 4]))
            yield parts

    return Block(2, read)


DECODERS: dict[str, Callable[[Any, Any], Block]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
    "IQ4_NL": _iq4_nl,
}


def _around(builder: Any, scale: Any, middle: int, levels: Sequence[Any]) -> Part:
    """Weights that are 0 at the level `middle`."""
    return Part(scale, builder.fmul(scale, every(-float(middle), VECTOR)), levels)


def _factor(builder: Any, block: Any) -> tuple[Any, Any]:
    """The float16 before the words, and the address of the words."""
    return builder.fpext(load(builder, block, HALVES), VECTOR), plus(builder, block, i64(2 * LANES))


def _factors(builder: Any, block: Any) -> tuple[Any, Any]:
    """The float16 in the lower and in the upper halves of the first words."""
    (words,) = _words(builder, block, 0, 1)
    one, other = (
        builder.fpext(builder.bitcast(builder.trunc(_right(builder, words, bits), SHORTS), HALVES), VECTOR)
        for bits in (0, 16)
    )
    return one, other


def _scales_k(builder: Any, block: Any) -> Callable[[Any], list[tuple[Any, Any]]]:
    """Of a Q4_K or Q5_K what gives the scales and the least weights of the two sub-blocks of a pair."""
    factor, least = _factors(builder, block)
    first, second, third = _words(builder, block, 1, 3)
    place = builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(WORDS, 4)), I64)
    for half, (word, bits) in enumerate(((first, 0), (second, 4))):
        lower, upper = _and(builder, _right(builder, third, bits), FOURS), _and(builder, _right(builder, word, 2), TWOS)
        store(builder, _and(builder, word, SIXES), place, LINE * half)
        store(builder, builder.or_(lower, upper), place, LINE * (2 + half))
    by = factor, builder.fneg(least)

    def of(pair: Any) -> list[tuple[Any, Any]]:
        start = plus(builder, place, builder.mul(builder.lshr(pair, i64(1)), i64(2 * LINE)))
        bits = builder.mul(builder.and_(builder.trunc(pair, I32), i32(1)), i32(16))
        words = [builder.lshr(word, spread(builder, bits, WORDS)) for word in _words(builder, start, 0, 2)]
        numbers = [
            [builder.uitofp(_and(builder, _right(builder, word, 8 * upper), 0xFF), VECTOR) for word in words]
            for upper in range(2)
        ]
        return [(builder.fmul(scale, by[0]), builder.fmul(least, by[1])) for scale, least in numbers]

    return of


def _words(builder: Any, start: Any, first: int, count: int) -> list[Any]:
    """Some words of 16 outputs."""
    return [load(builder, start, WORDS, LINE * word) for word in range(first, first + count)]


def _behind(builder: Any, start: Any, words: int, step: Any = None, size: int = 0) -> Any:
    """The address behind some words, and behind those of earlier steps."""
    address = plus(builder, start, i64(LINE * words))
    return address if step is None else plus(builder, address, builder.mul(step, i64(LINE * size)))


def _single(parts: Sequence[Part]) -> Block:
    return Block(1, lambda _: iter([parts]))


def _nibbles(builder: Any, start: Any) -> list[Any]:
    """The levels of 32 inputs: the lower four bits of bytes, then the upper ones."""
    words = _words(builder, start, 0, GROUPS // 2)
    return [_nibble(builder, word, upper) for upper in range(2) for word in words]


def _fives(builder: Any, start: Any) -> list[Any]:
    """Levels of five bits; the fifth ones lie before the others, those of group g at bit g of each byte."""
    (fifth,) = _words(builder, start, 0, 1)
    return [
        builder.or_(level, _and(builder, _right(builder, fifth, group - 4), ONES))
        for group, level in enumerate(_nibbles(builder, _behind(builder, start, 1)))
    ]


def _nibble(builder: Any, word: Any, upper: int) -> Any:
    return _and(builder, _right(builder, word, 4 * upper), FOURS)


def _and(builder: Any, word: Any, mask: int) -> Any:
    return builder.and_(word, every(mask, WORDS))


def _right(builder: Any, word: Any, bits: int) -> Any:
    """Moved to the right by a number of bits, or to the left if it is negative."""
    if bits == 0:
        return word
    return builder.lshr(word, every(bits, WORDS)) if bits > 0 else builder.shl(word, every(-bits, WORDS))
