"""Functions of a module that only its programs call, and numbers in loops over rows."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from draftscope.models.native.instructions import I64, i64, plus


def function(module: Any, name: str, count: int) -> tuple[Any, Any]:
    """A builder within a new function of 64-bit arguments without a result, and its arguments."""
    made = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * count), name)
    made.linkage = "internal"
    made.attributes.add("noinline")
    return ir.IRBuilder(made.append_basic_block()), made.args


def smaller(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.icmp_signed("<", one, other), one, other)


def quotient(builder: Any, number: Any, by: Any) -> Any:
    """Rounded up."""
    return builder.udiv(plus(builder, number, builder.sub(by, i64(1))), by)
