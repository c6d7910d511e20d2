"""The compiled programs, or why this machine cannot run them. Importing this module does not import numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Programs(NamedTuple):
    """Addresses of the programs, what runs one: `run(program, arguments, threads, 0)`, and whether they read weights of
    4 and 8 bits."""

    forward: int
    multiply: int
    head: int
    run: Callable[[int, int, int, int], None]
    packs: bool


@lru_cache(maxsize=1)
def programs() -> Programs:
    """The programs; the first call on a machine compiles them. Raises what numba, LLVM and the system raise."""
    from draftscope.models.native import head, multiply, program, quantized, team

    compiled = kept_or_not(lambda: (program.compiled(), multiply.compiled(), head.compiled()))
    return Programs(*compiled, team.start(), quantized.available())


def kept_or_not(compiled: Callable[[], T]) -> T:
    """What `compiled` compiles. Where numba can keep nothing on the disk (it is full, or the package's folder and the
    user's are read-only), it compiles for this process alone, in a folder that is gone afterwards."""
    from numba.core import config

    try:
        return compiled()
    except (RuntimeError, OSError):
        before = config.CACHE_DIR
        with TemporaryDirectory(prefix="draftscope-") as folder:
            config.CACHE_DIR = folder
            try:
                return compiled()
            finally:
                config.CACHE_DIR = before


@lru_cache(maxsize=1)
def why_not() -> str:
    """Why this machine cannot run the programs, as a sentence; empty if it can."""
    if find_spec("numba") is None:
        return "Forwards in bfloat16 are not compiled, because numba is not installed; install it: pip install numba."
    try:
        programs()
    except Exception as error:  # numba's and LLVM's errors have no common base class
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return f"Forwards in bfloat16 are not compiled on this machine: {reason}."
    return ""
