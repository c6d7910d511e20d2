"""Whether this machine can run the compiled forward; the only module of this package that does not need numba."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from draftscope.models.forward.lean import LeanLlama


def native_or_lean(network: Any) -> LeanLlama:
    """The fastest forward of a network that `lean.covers`."""
    if str(network.dtype) != "torch.bfloat16" or why_not():
        return LeanLlama(network)
    from draftscope.models.native.llama import NativeLlama

    lean = LeanLlama(network, packed=False)
    return NativeLlama(lean) if NativeLlama.covers(lean) else LeanLlama(network)


@lru_cache(maxsize=1)
def why_not() -> str:
    """Why this machine cannot run compiled forwards, as a sentence; empty if it can. The first call compiles them."""
    if find_spec("numba") is None:
        return "Forwards in bfloat16 are not compiled, because numba is not installed; install it: pip install numba."
    try:
        from draftscope.models.native.program import compiled

        compiled()
    except Exception as error:  # numba's and LLVM's errors have no common base class
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return f"Forwards in bfloat16 are not compiled on this machine: {reason}."
    return ""
