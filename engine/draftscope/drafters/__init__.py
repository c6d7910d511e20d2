"""Drafters propose tokens. `registry` lists them, `drafter` defines what one is, `options` what each one reads.

The names below load torch on first use only, so that options can be listed and validated without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from draftscope.base.control import Control
from draftscope.drafters.options import DrafterOptions, GammaOptions

if TYPE_CHECKING:
    from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State, TextDraftModel
    from draftscope.drafters.registry import find, is_built_in, known

__all__ = [
    "Control", "Drafter", "DrafterInfo", "DrafterOptions", "GammaOptions", "Outcome", "Parts", "State",
    "TextDraftModel", "find", "is_built_in", "known",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("find", "is_built_in", "known"):
        from draftscope.drafters import registry

        return getattr(registry, name)
    if name in __all__:
        from draftscope.drafters import drafter

        return getattr(drafter, name)
    raise AttributeError(f"module 'draftscope.drafters' has no attribute '{name}'")
