"""Token-level intersection: a draft with another tokenizer draws only tokens that the target has too.

TLI of Timor et al. 2502.05202. The draft's distribution is restricted to the tokens that both vocabularies have and
renormalised before anything is drawn. So it is a distribution over the target's tokens like that of any other draft,
verified by the same rules and exact at every temperature. The cost is acceptance: tokens that only the target has are
never drafted.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.drafter import DrafterInfo, Parts, State
from draftscope.drafters.model.levels import Levels
from draftscope.drafters.options import DrawnChainOptions
from draftscope.drafters.text.realigned import RealignedDraft
from draftscope.verify.tree import Topology, even


class Tli(Levels):
    """A chain drawn from the shared tokens."""

    shares = False

    def __init__(self, parts: Parts[DrawnChainOptions]) -> None:
        super().__init__(parts, even((1,) * parts.options.gamma), sampled=True)
        self._draft = RealignedDraft(parts)
        theirs, ours = self._draft.realigner.shared()
        widths = self._draft.vocabulary, parts.vocabulary
        pairs = [pair for pair in zip(theirs, ours, strict=True) if pair[0] < widths[0] and pair[1] < widths[1]]
        if not pairs:
            raise DraftscopeError("The draft has no token in common with the target; choose the drafter 'slem'.")
        self._draft_tokens, self._target_tokens = torch.tensor(pairs, device=self._draft.device).T
        self._to_draft = torch.zeros(parts.vocabulary, dtype=torch.long, device=self._draft.device)
        self._to_draft[self._target_tokens] = self._draft_tokens
        self._vocabulary = parts.vocabulary

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        self._draft.read(self._draft.retokenized(prompts))

    def first(self, state: State) -> Tensor | None:
        texts = self._draft.retokenized(state.texts)
        return self._distribution(self._draft.read(texts)) if any(map(self._draft.fits, texts)) else None

    def below(self, form: Topology, children: Tensor, start: int) -> Tensor:
        return self._distribution(self._draft.feed(self._to_draft[children]))

    def _distribution(self, logits: Tensor) -> Tensor:
        """The draft's distribution [B, 1, V] over the target's tokens, warped over the shared tokens only."""
        distribution = self._sampling.distribution(logits[..., self._draft_tokens])
        return distribution.new_zeros((*distribution.shape[:-1], self._vocabulary)).index_copy_(
            -1, self._target_tokens, distribution
        )


INFO = DrafterInfo(
    name="tli",
    title="Draft model of another tokenizer, shared tokens only",
    paper="token-level intersection, Timor et al. 2502.05202",
    create=Tli,
    options=DrawnChainOptions,
    needs_text_draft=True,
)
