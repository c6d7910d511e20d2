"""What a process of `beforehand` does: compiles a part of the programs, runs none, and says a line for each of them.

It ends when its input does, since whoever started it is gone then.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import llvmlite.binding as llvm
from numba.core import event

from draftscope.models.beforehand import FUNCTION, PART, PARTS


def programs() -> None:
    """The forward, the product of rows and a weight, and the head's step. They call the other process's product by
    its name alone."""
    from draftscope.models.native import native_program, products

    llvm.add_symbol(products.NAME, id(programs))
    vars(products)["start"] = lambda: None
    native_program.compiled()


def products() -> None:
    """The product, and the loops that draw and verify."""
    from draftscope.models.native import products, team

    team.start()
    products.start()
    from draftscope.verify import loops  # noqa: F401


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
    acts[sys.argv[1]]()
    _say(PART)
    os._exit(0)  # the thread waits for input, whatever the interpreter would do at its end


if __name__ == "__main__":
    main()
