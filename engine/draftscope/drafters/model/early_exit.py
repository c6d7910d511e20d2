"""Self-speculation: the target's first layers and its head draft, and the whole target verifies.

Draft & Verify (Zhang et al. 2309.08168), LayerSkip (Elhoushi et al. 2404.16710, whose targets were trained for it). The
weights are the target's. The drafter has its own cache, so these layers read each token twice, to draft and to verify.
"""

from __future__ import annotations

from dataclasses import replace

from draftscope.drafters.drafter import Drafter, DrafterInfo, Parts
from draftscope.drafters.length import lengths_of
from draftscope.drafters.model.draft_model import DraftModel
from draftscope.drafters.options import EarlyExitOptions
from draftscope.models.model import Model
from draftscope.verify.tree import even


class EarlyExit(DraftModel):
    """A chain from a draft model that consists of the target's first layers."""

    step = "exit step"


def _create(parts: Parts[EarlyExitOptions]) -> Drafter:
    count = parts.options.exit_layer or -(-parts.target.layers // 4)
    early = replace(parts, draft=parts.target.first_layers(count))
    gamma = parts.options.gamma
    lengths = lengths_of(parts.options, parts.cost, gamma, parts.batch)
    return EarlyExit(early, even((1,) * gamma), sampled=True, lengths=lengths)


def _unfit(target: Model) -> str:
    if target.stateful:
        return "its layers keep a state"
    if target.emulated is not None:
        return "an emulated size has no layers to part"
    return "the target has one layer" if target.layers == 1 else ""


INFO = DrafterInfo(
    name="early-exit",
    title="Early exit, chain",
    paper="Draft & Verify, Zhang et al. 2309.08168; LayerSkip, Elhoushi et al. 2404.16710",
    create=_create,
    options=EarlyExitOptions,
    unfit=_unfit,
)
