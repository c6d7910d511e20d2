"""Memory by address for compiled code, and conversions between float32 and bfloat16 bits."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from draftscope.models.native.instructions import ADDRESS, LANES, VECTOR, lanes, load, store
from draftscope.models.native.places import BLOCK


def _pointer_to(kind: Any) -> Any:
    @intrinsic
    def at(_context, address):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return at


floats = _pointer_to(types.float32)
halves = _pointer_to(types.uint16)  # bfloat16 bits
integers = _pointer_to(types.int64)
indices = _pointer_to(types.int32)
flags = _pointer_to(types.uint8)


@intrinsic
def bits(_context, value):  # type: ignore[no-untyped-def]
    """The bits of a float32."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


@intrinsic
def from_bits(_context, value):  # type: ignore[no-untyped-def]
    """The float32 of some bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@njit(nogil=True)
def narrow(value):  # type: ignore[no-untyped-def]
    """float32 -> bfloat16 bits, to the nearest, ties to even."""
    word = types.uint32(bits(value))
    odd = types.uint32((word >> types.uint32(16)) & types.uint32(1))
    rounded = types.uint16((word + types.uint32(0x7FFF) + odd) >> types.uint32(16))
    return rounded if value == value else types.uint16(0x7FC0)


@njit(nogil=True)
def wide(half):  # type: ignore[no-untyped-def]
    """bfloat16 bits -> float32."""
    return from_bits(types.uint32(half) << types.uint32(16))


@intrinsic
def _split_block(_context, x, out):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        x, out = arguments
        halves = [load(builder, x, VECTOR, 4 * LANES * half) for half in range(2)]
        for odd in range(2):
            chosen = builder.shuffle_vector(*halves, lanes(range(odd, 2 * LANES, 2)))
            store(builder, chosen, out, 4 * LANES * odd)
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS), generate


@njit(nogil=True)
def split_row(x, width, out):  # type: ignore[no-untyped-def]
    """Writes a row in the order in which products read it: of every block the even values, then the odd ones. It may be
    written where it is."""
    for start in range(0, 4 * width, 4 * BLOCK):
        _split_block(x + start, out + start)
