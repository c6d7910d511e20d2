"""Arms: what a bandit chooses among. An arm is a drafter with its own gamma or shape: NAME:GAMMA or NAME:SHAPE.

'draft:4' is a chain of four, 'sampled-tree:2x1x1' a tree with two children at the root and one child of each below,
'ngram' the n-gram drafter with the run's own gamma, 'plain' no draft at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.drafter import DrafterInfo, Parts
from draftscope.drafters.options import BanditOptions, DrafterOptions, GammaOptions, ShapeOptions
from draftscope.drafters.registry import find
from draftscope.drafters.settings import Settings


@dataclass(frozen=True)
class BanditArm:
    """One arm: `settings` are the run's settings, with the arm's drafter and its gamma or shape."""

    name: str
    info: DrafterInfo
    settings: Settings

    @property
    def options(self) -> DrafterOptions:
        """The options that its drafter reads."""
        options: DrafterOptions = self.settings.options(self.info.options)
        return options

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Children of every node, level by level; empty for plain, None if the drafter proposes no full tree."""
        if "shape" in self.info.uses:
            return self.settings.options(ShapeOptions).shape
        if "gamma" in self.info.uses:
            return (1,) * self.settings.options(GammaOptions).gamma
        return () if self.info.name == "plain" else None


def arms_of(settings: Settings) -> list[BanditArm]:
    """The arms that the settings name. `DraftscopeError` for one that cannot be an arm, or is named twice."""
    arms = [_arm(written, settings) for written in settings.options(BanditOptions).arms]
    for i, arm in enumerate(arms):
        if any((arm.info, arm.options) == (other.info, other.options) for other in arms[:i]):
            raise DraftscopeError(f"arms: '{arm.name}' is named twice; name each arm once.")
    return arms


def refuse(arm: BanditArm, parts: Parts[DrafterOptions]) -> None:
    """`DraftscopeError` if these models cannot run an arm."""
    info = arm.info
    why = info.unfit(parts.target)
    if (info.needs_draft and parts.draft is None) or (info.needs_text_draft and parts.text_draft is None):
        why = "no draft model with the target's tokenizer is loaded" if parts.text_draft else "no draft model is loaded"
    elif info.needs_head and info.needs_head not in parts.heads:
        why = f"no {info.needs_head} head is loaded"
    elif info.grows_trees:
        models = (parts.target, parts.draft if info.needs_draft else None)
        limited = next((model for model in models if model is not None and not model.trees), None)
        why = f"'{limited.name}' takes no trees" if limited is not None else why
    if why:
        raise DraftscopeError(f"The arm '{arm.name}' cannot run here: {why}; leave it out of 'arms'.")


def _arm(written: str, settings: Settings) -> BanditArm:
    name, _, form = written.strip().partition(":")
    info = find(name)
    if info.synthetic or "arms" in info.uses or "typed" in info.uses:
        raise DraftscopeError(
            f"arms: '{name}' cannot be an arm, as it is typed, synthetic or a bandit itself; leave it out."
        )
    changes: dict[str, Any] = {"drafter": name, "draft_length": "fixed"}
    if form and "shape" in info.uses:
        changes["shape"] = tuple(form.split("x"))
    elif form and "gamma" in info.uses:
        changes["gamma"] = form
    elif form:
        raise DraftscopeError(f"arms: '{written[:40]}', but '{name}' has neither gamma nor shape; write '{name}'.")
    try:
        return BanditArm(written.strip(), info, Settings.of(**settings.model_dump() | changes))
    except DraftscopeError as error:
        raise DraftscopeError(f"arms: '{written[:40]}', {error} Write NAME, NAME:GAMMA or NAME:2x1x1.") from None
