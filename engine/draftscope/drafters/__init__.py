"""Drafters propose tokens. `registry` lists them, `drafter` defines what one is, `options` what each one reads.

The names below load torch on first use only, so that options can be listed and validated without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from draftscope.base.settings import Control
from draftscope.drafters.options import DrafterOptions, GammaOptions

if TYPE_CHECKING:
    from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State, TextDraftModel
    from draftscope.drafters.given import AnyDrafter
    from draftscope.drafters.registry import adopt, find, known, problems

__all__ = [
    "AnyDrafter", "Control", "Drafter", "DrafterInfo", "DrafterOptions", "GammaOptions", "Outcome", "Parts", "State",
    "TextDraftModel", "adopt", "find", "known", "problems",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("adopt", "find", "known", "problems"):
        from draftscope.drafters import registry

        return getattr(registry, name)
    if name == "AnyDrafter":
        from draftscope.drafters.given import AnyDrafter

        return AnyDrafter
    if name in __all__:
        from draftscope.drafters import drafter

        return getattr(drafter, name)
    raise AttributeError(f"module 'draftscope.drafters' has no attribute '{name}'")
