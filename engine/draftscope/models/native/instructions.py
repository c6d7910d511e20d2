"""LLVM instructions on vectors of 16 numbers, for the vector code of the native forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, types
from numba.core import cgutils

LANES = 16
FLOAT, BYTE, I32, I64 = ir.FloatType(), ir.IntType(8), ir.IntType(32), ir.IntType(64)
VECTOR, WORDS, HALVES, BYTES = (ir.VectorType(kind, LANES) for kind in (FLOAT, I32, ir.HalfType(), BYTE))
SUMS = ir.VectorType(I32, 8)
ADDRESS = types.int64


def has(feature: str) -> bool:
    """Whether this processor has a feature, by LLVM's name of it."""
    forced = config.CPU_FEATURES  # NUMBA_CPU_FEATURES, with which another processor's path is tried
    return f"+{feature}" in forced if forced is not None else bool(llvm.get_host_cpu_features().get(feature))


def accumulator(builder: Any) -> Any:
    """A vector of zeros that `add_product` adds to."""
    place = cgutils.alloca_once(builder, VECTOR)
    builder.store(every(0.0, VECTOR), place)
    return place


def add_product(builder: Any, place: Any, one: Any, other: Any) -> None:
    product = call(builder, f"llvm.fma.v{LANES}f32", VECTOR, [one, other, builder.load(place)])
    builder.store(product, place)


def call(builder: Any, name: str, result: Any, arguments: Sequence[Any]) -> Any:
    """An intrinsic of LLVM or of the processor."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def spread(builder: Any, value: Any, kind: Any) -> Any:
    """A number in all lanes."""
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, i32(0))
    return builder.shuffle_vector(one, one, lanes([0] * LANES))


def every(value: float, kind: Any) -> Any:
    """A constant in all lanes."""
    return ir.Constant(kind, [value] * LANES)


def load(builder: Any, address: Any, kind: Any, offset: int = 0) -> Any:
    return builder.load(pointer(builder, plus(builder, address, i64(offset)), kind), align=2)


def store(builder: Any, value: Any, address: Any, offset: int = 0) -> None:
    builder.store(value, pointer(builder, plus(builder, address, i64(offset)), value.type), align=1)


def pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def lookup(builder: Any, table: Any, index: Any) -> Any:
    """Of a table of 16 bytes those at 16 indices below 16."""
    name = "llvm.aarch64.neon.tbl1.v16i8" if on_arm(builder) else "llvm.x86.ssse3.pshuf.b.128"
    return call(builder, name, BYTES, [table, index])


def pairs(builder: Any, one: Any, other: Any) -> Any:
    """Products of two vectors of 16 int16, those of neighbours added: 8 int32."""
    if not on_arm(builder):
        return call(builder, "llvm.x86.avx2.pmadd.wd", SUMS, [one, other])
    four = ir.VectorType(I32, 4)
    products = []
    for start in range(0, LANES, 4):
        parts = [builder.shuffle_vector(of, of, lanes(range(start, start + 4))) for of in (one, other)]
        products.append(call(builder, "llvm.aarch64.neon.smull.v4i32", four, parts))
    halves = [call(builder, "llvm.aarch64.neon.addp.v4i32", four, products[at : at + 2]) for at in (0, 2)]
    return builder.shuffle_vector(*halves, lanes(range(8)))


def on_arm(builder: Any) -> bool:
    return str(builder.module.triple).startswith(("aarch64", "arm64"))


def prefetch(builder: Any, address: Any) -> None:
    call(
        builder,
        "llvm.prefetch.p0",
        ir.VoidType(),
        [pointer(builder, address, BYTE), i32(0), i32(2), i32(1)],
    )


def plus(builder: Any, one: Any, other: Any) -> Any:
    return builder.add(one, other)


def at(builder: Any, start: Any, index: Any, step: int) -> Any:
    """The address of an element of `step` bytes."""
    return builder.add(start, builder.mul(index, i64(step)))


def lanes(numbers: Any) -> Any:
    numbers = list(numbers)
    return ir.Constant(ir.VectorType(I32, len(numbers)), numbers)


def i32(value: int) -> Any:
    return ir.Constant(I32, value)


def i64(value: int) -> Any:
    return ir.Constant(I64, value)
