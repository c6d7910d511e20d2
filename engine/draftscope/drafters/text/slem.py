"""String-level exact match: a draft with another tokenizer writes text, which the target's tokenizer turns into tokens.

Universal assisted generation; SLEM of Timor et al. 2502.05202. The output has the target's distribution at every
temperature, because the continuation is fixed before any of the round's uniforms is used, and is verified as a point
mass. The draft's distribution over the *target's* tokens is not known, since many of its token sequences spell the same
target token. So it drafts greedily, and decisions show p without q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import torch
from torch import Tensor

from draftscope.drafters.drafter import Drafter, DrafterInfo, Parts, State
from draftscope.drafters.options import GammaOptions
from draftscope.drafters.text.realigned import RealignedDraft
from draftscope.trace.events import Annotation, Realignment
from draftscope.verify.tree import DraftTree, deterministic_chains, empty


class Slem(Drafter):
    """A deterministic chain: the text of `gamma` draft tokens, as at most `gamma` tokens of the target."""

    def __init__(self, parts: Parts[GammaOptions]) -> None:
        self._gamma = parts.options.gamma
        self._draft = RealignedDraft(parts)
        self._notes: list[Realignment] = []

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        self._draft.read(self._draft.retokenized(prompts))

    def propose(self, state: State, depth: int) -> DraftTree:
        self._notes = []
        began = perf_counter()
        texts = self._draft.retokenized(state.texts)
        if not depth or not any(map(self._draft.fits, texts)):
            return empty(len(state.texts), self._draft.device)
        token = self._draft.read(texts).argmax(-1)  # [B, 1]
        drafted, times = [token], []
        for _ in range(self._gamma - 1):
            times.append((perf_counter() - began) * 1e3)
            began = perf_counter()
            token = self._draft.feed(token).argmax(-1)
            drafted.append(token)
        ids = torch.cat(drafted, 1).tolist()
        times.append((perf_counter() - began) * 1e3)
        chains = [self._draft.realigner.write(o, s)[: min(self._gamma, depth)] for o, s in zip(ids, texts, strict=True)]
        self._notes = [
            Realignment(drafted=self._gamma, proposed=len(chain), read_again=again)
            for chain, again in zip(chains, self._draft.read_again, strict=True)
        ]
        tree = deterministic_chains(chains, ["through text"] * len(chains), self._draft.device)
        return replace(tree, forward_ms=tuple(times))

    def annotations(self, row: int) -> Sequence[Annotation]:
        return self._notes[row : row + 1]


INFO = DrafterInfo(
    name="slem",
    title="Draft model of another tokenizer, through text",
    paper="string-level exact match, Timor et al. 2502.05202; universal assisted generation",
    create=Slem,
    options=GammaOptions,
    needs_text_draft=True,
)
