"""Draftscope's engine: speculative decoding that really decodes, and records what it did.

    import draftscope
    lab = draftscope.load()
    run = lab.decode("Once upon a time", drafter="draft", temperature=0.8, seed=7)
    print(run.text, run.metrics.mean_acceptance_length)

The names below load torch on first use only, so that reading a trace never does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.settings import Settings

if TYPE_CHECKING:
    from draftscope.decode.lab import Lab
    from draftscope.decode.load import load
    from draftscope.decode.run import Result

__all__ = ["DraftscopeError", "Lab", "Result", "Settings", "load"]


def __getattr__(name: str) -> Any:
    if name in ("Lab", "Result"):
        from draftscope.decode import lab

        return getattr(lab, name)
    if name == "load":
        from draftscope.decode.load import load

        return load
    raise AttributeError(f"module 'draftscope' has no attribute '{name}'")
