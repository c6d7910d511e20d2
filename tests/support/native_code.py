"""Programs of stored weights for other processors than numba compiles for, made by LLVM directly."""

from __future__ import annotations

from ctypes import CFUNCTYPE, c_int64
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from draftscope.models.native.instructions import I64
from draftscope.models.native.stored_products import write_product

AVX2 = "haswell"  # LLVM's name of a processor with AVX2 and without AVX-512
ARM = "aarch64-linux-gnu"


def module_of(kind: str, widths: tuple[int, ...], triple: str) -> Any:
    """One function, `product`, with the arguments of `products.product`."""
    module = ir.Module()
    module.triple = triple
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 9), "product")
    builder = ir.IRBuilder(function.append_basic_block())
    write_product(builder, kind, widths, function.args)
    builder.ret_void()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    return parsed


def assembly(kind: str, widths: tuple[int, ...], triple: str) -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2)
    return str(machine.emit_assembly(module_of(kind, widths, triple)))


class Compiled:
    """A program for a processor of this machine's kind, by LLVM's name of it."""

    def __init__(self, kind: str, widths: tuple[int, ...], processor: str) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(cpu=processor, opt=2)
        module = module_of(kind, widths, llvm.get_default_triple())
        passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
        passes.getModulePassManager().run(module, passes)
        self._engine = llvm.create_mcjit_compiler(module, machine)  # kept, because it owns the code
        self._engine.finalize_object()
        self._call = CFUNCTYPE(None, *[c_int64] * 9)(self._engine.get_function_address("product"))

    def __call__(self, x: np.ndarray[Any, Any], blocks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """float32 x [rows, columns] times blocks [outputs, bytes]."""
        return product(self._call, x, blocks)


def product(call: Any, x: np.ndarray[Any, Any], blocks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same by any program of that signature."""
    (rows, columns), outputs = x.shape, len(blocks)
    split = np.ascontiguousarray(x.reshape(rows, -1, 16, 2).swapaxes(2, 3), dtype=np.float32)
    out = np.zeros((rows, outputs), np.float32)
    addresses = split.ctypes.data, 4 * columns, blocks.ctypes.data
    call(*addresses, columns, rows, out.ctypes.data, 4 * outputs, 0, outputs)
    return out
