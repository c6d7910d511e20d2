"""Draftscope: speculative decoding that really decodes, and records what it did.

    import draftscope
    engine = draftscope.load()
    run = engine.decode("Once upon a time", temperature=0.8, seed=7)
    print(run.text, run.metrics.mean_acceptance_length)
    engine.compare(["Once upon a time", "The sea was"], ["draft", "ngram"])

The names below load torch on first use only, so that reading a trace never does.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from draftscope.base.collecting import without_collecting
from draftscope.base.errors import DraftscopeError
from draftscope.drafters.settings import Settings

if TYPE_CHECKING:
    from draftscope.api import Engine, Report, load
    from draftscope.decode.assisted import Watched, watch
    from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State
    from draftscope.drafters.options import DrafterOptions, GammaOptions
    from draftscope.trace.result import Result, Trace, read
    from draftscope.verify.sampling import Sampling
    from draftscope.verify.tree import DraftTree, deterministic_chains, sampled_chain, sampled_tree

__all__ = [
    "DraftTree", "Drafter", "DrafterInfo", "DrafterOptions", "DraftscopeError", "Engine", "GammaOptions", "Outcome",
    "Parts", "Report", "Result", "Sampling", "Settings", "State", "Trace", "Watched", "deterministic_chains", "load",
    "read", "sampled_chain", "sampled_tree", "watch",
]  # fmt: skip

_MODULES = {
    "api": ("Engine", "Report", "load"),
    "decode.assisted": ("Watched", "watch"),
    "drafters.drafter": ("Drafter", "DrafterInfo", "Outcome", "Parts", "State"),
    "drafters.options": ("DrafterOptions", "GammaOptions"),
    "trace.result": ("Result", "Trace", "read"),
    "verify.sampling": ("Sampling",),
    "verify.tree": ("DraftTree", "deterministic_chains", "sampled_chain", "sampled_tree"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            path = f"draftscope.{module}"
            with nullcontext() if path in sys.modules else without_collecting():
                return getattr(import_module(path), name)  # waits for a thread that imports it
    raise AttributeError(f"module 'draftscope' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
