"""The compiled programs, or why this machine cannot run them. Importing this module does not import numba."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

from draftscope.base.compiling import kept_or_not

NEEDED = ("avx2", "fma", "f16c")  # of a processor with x86's instructions, to multiply weights as they lie in a file


class Programs(NamedTuple):
    """Addresses of the programs, what runs one (`team.start`), and whether this processor multiplies panels."""

    forward: int
    multiply: int
    head: int
    run: Callable[[int, Any, int, int], None]
    panels: bool


@lru_cache(maxsize=1)
def programs() -> Programs:
    """The programs; the first call on a machine compiles them. Raises what numba, LLVM and the system raise."""
    from draftscope.models.native import native_program, panel_products, team

    return Programs(*kept_or_not(native_program.compiled), team.start(), panel_products.available())


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


def stored_kinds() -> tuple[str, ...]:
    """The types of tensors in GGUF files that this machine multiplies as they lie there."""
    if why_not() or why_not_stored():
        return ()
    from draftscope.models.native.decoders import FORMATS

    return tuple(FORMATS)


@lru_cache(maxsize=1)
def why_not_stored() -> str:
    """What this processor lacks for weights as they lie in a file, as a sentence; empty if it lacks nothing."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ""
    missing = [name for name in NEEDED if not _has(name)]
    return f"This processor lacks {', '.join(map(str.upper, missing))}." if missing else ""


@lru_cache(maxsize=1)
def instructions() -> str:
    """The vector instructions of this processor that a measured time depends on, such as 'AVX-512 with VNNI, bf16'."""
    if platform.machine() not in ("x86_64", "AMD64") or find_spec("numba") is None:
        return platform.machine()
    if not _has("avx512f"):
        return "AVX2" if _has("avx2") else "without AVX2"
    more = [words for words, feature in (("VNNI", "avx512vnni"), ("bf16", "avx512bf16")) if _has(feature)]
    return " with ".join(["AVX-512", ", ".join(more)] if more else ["AVX-512"])


def _has(feature: str) -> bool:
    from draftscope.models.native.instructions import has

    return has(feature)
