"""What a process of `beforehand` does: compiles a part of the programs, runs none, and says a line for each of them.

It ends when its input does, since whoever started it is gone then.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import llvmlite.binding as llvm
from numba import _dynfunc
from numba.core import codegen, cpu, dispatcher, event

from draftscope.models.beforehand import FUNCTION, PART, PARTS


def programs() -> None:
    """The forward, the product of rows and a weight, and the head's step. They call the other process's product by
    its name alone."""
    from draftscope.models.native import native_program, products

    vars(dispatcher)["_FunctionCompiler"]._customize_flags = _without_wrappers
    llvm.add_symbol(products.NAME, id(programs))
    vars(products)["start"] = lambda: None
    native_program.compiled()


def products() -> None:
    """The product, and the loops that draw and verify."""
    from draftscope.models.native import products, team

    team.start()
    products.start()
    from draftscope.verify import loops  # noqa: F401


def _without_wrappers(_: object, flags: Any) -> Any:
    """A program's parts are called by it alone, so they need nothing by which Python and C would call them."""
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    return flags


def _only_what_is_kept() -> None:
    """Machine code is made of a program alone. numba makes it of each of its parts too, as if somebody ran them."""
    library = codegen.JITCodeLibrary
    finish, address = library._finalize_final_module, library.get_pointer_to_function
    kept = library._get_compiled_object
    finished: weakref.WeakSet[Any] = weakref.WeakSet()

    def later(program: Any) -> None:
        program._finalized = True

    def finished_now(program: Any) -> Any:
        program._ensure_finalized()
        if program not in finished:
            finished.add(program)
            finish(program)
        return program

    def called_by_nobody(_: object, program: Any, what: Any, env: Any) -> Any:
        name = what.qualname.rpartition(".")[2]
        return _dynfunc.make_function(what.lookup_module(), name, "", 0, env, (program,))

    library._finalize_final_module = later
    library.get_pointer_to_function = lambda program, name: address(finished_now(program), name)
    library._get_compiled_object = lambda program: kept(finished_now(program))
    cpu.CPUContext.get_executable = called_by_nobody


class _Said(event.Listener):  # type: ignore[misc] # mypy does not see numba
    def on_start(self, _: object) -> None: ...

    def on_end(self, _: object) -> None:
        _say(FUNCTION)


def _say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def _end_with_the_input() -> None:
    os.read(0, 1)
    os._exit(1)


def main() -> None:
    acts: dict[str, Callable[[], None]] = dict(zip(PARTS, (programs, products), strict=True))
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    with suppress(AttributeError, OSError):  # the page comes first
        os.nice(5)
    event.register("numba:compile", _Said())
    _only_what_is_kept()
    gc.disable()  # it ends before that pays
    acts[sys.argv[1]]()
    _say(PART)
    os._exit(0)  # the thread waits for input, whatever the interpreter would do at its end


if __name__ == "__main__":
    main()
