"""A cascade of three or more tiers: copied guesses draft for a small model, which drafts for a larger one, and so on up
to the target.

Cascade speculative drafting (Chen et al. 2312.11462), lossless: every model verifies its guesses as a target does
(`tiers`), so its tokens are drawn from its own distribution. The target verifies with the distribution q of the largest
draft model; the smaller ones only save time. Each tier has its own uniforms: a shared one would make the results of two
tiers dependent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.model.tiers import Copier, Tier
from draftscope.drafters.options import CascadeOptions
from draftscope.trace.events import Annotation, Tiers, TierWork
from draftscope.verify.tree import DraftTree, empty

TIER = 1  # each model's uniforms are one tier below those of the next larger model; the target's are tier 0


class Cascade(Drafter):
    """A chain of `gamma` tokens of the draft model, which needs fewer forwards the better the smaller tiers guess."""

    def __init__(self, parts: Parts[CascadeOptions]) -> None:
        if parts.draft is None:
            raise DraftscopeError("No draft model is loaded; name one with --draft, or choose the drafter 'ngram'.")
        self._gamma, self._greedy = parts.options.gamma, parts.sampling.greedy
        self._device = parts.draft.device
        self._tiers = _tiers(parts)  # the largest model first
        self._committed = [0] * parts.batch

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        self._tiers[0].begin(prompts)

    def propose(self, state: State, depth: int) -> DraftTree:
        self._committed = [len(text) for text in state.texts]
        largest, gamma, batch = self._tiers[0], min(self._gamma, depth), len(state.texts)
        largest.read(state.texts)
        if gamma == 0:
            return empty(batch, self._device)
        chains = largest.draft(state.texts, [gamma] * batch, state.round)
        return replace(chains.tree(self._greedy, self._device), forward_ms=tuple(largest.round_ms))

    def observe(self, outcome: Outcome) -> None:
        """Every tier removes the tokens that the target rejected."""
        self._tiers[0].forget([length + len(p) for length, p in zip(self._committed, outcome.paths, strict=True)])

    def annotations(self, row: int) -> Sequence[Annotation]:
        return (Tiers(tiers=[TierWork(model=tier.model.name, forwards=len(tier.round_ms)) for tier in self._tiers]),)


def _tiers(parts: Parts[CascadeOptions]) -> list[Tier]:
    """A tier for each model, the largest first, each with its own uniforms."""
    assert parts.draft is not None
    models = (parts.draft, *parts.smaller)
    streams = [parts.streams.below(TIER)]
    for _ in models[1:]:
        streams.append(streams[-1].below(TIER))
    below: Tier | Copier = Copier(parts.options.inner, parts.options.ngram)
    tiers: list[Tier] = []
    for model, stream in zip(reversed(models), reversed(streams), strict=True):
        below = Tier(model, below, parts.sampling, stream, parts.options.gamma, parts.capacity, parts.vocabulary)
        tiers.insert(0, below)
    return tiers


INFO = DrafterInfo(
    name="cascade",
    title="Cascade: guesses, smaller models, draft model, target",
    paper="cascade speculative drafting, Chen et al. 2312.11462, losslessly",
    create=Cascade,
    options=CascadeOptions,
    needs_draft=True,
)
