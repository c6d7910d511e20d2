"""Drafters propose tokens. `registry` lists them, `drafter` defines what one is, `options` what each one reads.

What `drafter` defines needs torch, which is imported when one of its names is first read (see `registry`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from draftscope.base.common_settings import Control
from draftscope.drafters.options import DrafterOptions, GammaOptions
from draftscope.drafters.registry import adopt, find, known, problems

if TYPE_CHECKING:
    from draftscope.drafters.drafter import AnyDrafter, Drafter, DrafterInfo, Outcome, Parts, State, TextDraftModel

__all__ = [
    "AnyDrafter", "Control", "Drafter", "DrafterInfo", "DrafterOptions", "GammaOptions", "Outcome", "Parts", "State",
    "TextDraftModel", "adopt", "find", "known", "problems",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in __all__:
        from draftscope.drafters import drafter

        return getattr(drafter, name)
    raise AttributeError(f"module 'draftscope.drafters' has no attribute '{name}'")
