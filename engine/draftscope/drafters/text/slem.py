"""String-level exact match: a draft with another tokenizer writes text, which the target's tokenizer cuts into tokens.

Universal assisted generation; SLEM of Timor et al. 2502.05202. What is exact and what is not: the output's distribution
is exactly the target's at every temperature, because the continuation is fixed before any of the round's uniforms is
looked at, and is verified as a point mass. The distribution that the draft gives to the *target's* tokens is not known:
many of its own tokens spell one of the target's. So it drafts greedily, and a decision shows p beside no q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

from torch import Tensor

from draftscope.drafters.drafter import Drafter, DrafterInfo, Parts, State
from draftscope.drafters.options import GammaOptions
from draftscope.drafters.text.realigned import RealignedDraft
from draftscope.trace.events import Annotation, Realignment
from draftscope.verify.tree import DraftTree, deterministic_chains, empty


class Slem(Drafter):
    """A deterministic chain: what `gamma` tokens of the draft's own say, in at most `gamma` of the target's."""

    def __init__(self, parts: Parts[GammaOptions]) -> None:
        self._gamma = parts.options.gamma
        self._draft = RealignedDraft(parts)
        self._notes: list[Realignment] = []

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        self._draft.read(self._draft.seen(prompts))

    def propose(self, state: State, depth: int) -> DraftTree:
        self._notes = []
        began = perf_counter()
        seen = self._draft.seen(state.texts)
        if not depth or not any(map(self._draft.fits, seen)):
            return empty(len(state.texts), self._draft.device)
        token = self._draft.read(seen).argmax(-1)  # [B, 1]
        drafted, times = [token.tolist()], []
        for _ in range(self._gamma - 1):
            times.append((perf_counter() - began) * 1e3)
            began = perf_counter()
            token = self._draft.feed(token).argmax(-1)
            drafted.append(token.tolist())
        times.append((perf_counter() - began) * 1e3)
        own = [[step[b][0] for step in drafted] for b in range(len(seen))]
        chains = [self._draft.realigner.write(o, s)[: min(self._gamma, depth)] for o, s in zip(own, seen, strict=True)]
        self._notes = [
            Realignment(drafted=self._gamma, proposed=len(chain), read_again=again)
            for chain, again in zip(chains, self._draft.again, strict=True)
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
