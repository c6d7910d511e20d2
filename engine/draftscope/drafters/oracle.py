"""An oracle with a set acceptance rate: synthetic acceptance, which shows what speed the hardware alone allows.

Before the clock starts, the target writes the text once, with the same uniforms that will draw its tokens in the run.
Each drafted token is the one that will come, replaced by a wrong one with probability 1 - alpha. So a token is accepted
with probability alpha for every text, model and temperature: the acceptance model of Leviathan et al. (2211.17192).
With an alpha for each position, acceptance that was measured elsewhere is replayed.

The output still has the target's distribution: every token is the target's own draw, and the number of tokens that are
drawn with one round's uniforms depends only on separate uniforms, which decide about wrong tokens. (In 16 bits the two
forwards may round differently. If the text then differs from the one written before, the oracle drafts nothing more.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from draftscope.drafters.deterministic import TrieNode, deterministic_trees
from draftscope.drafters.drafter import Drafter, DrafterInfo, Parts, State
from draftscope.drafters.options import OracleOptions
from draftscope.verify.tree import DraftTree
from draftscope.verify.uniforms import Given, Streams


class Oracle(Drafter):
    """A chain of the coming text, in which some tokens are replaced by wrong ones."""

    def __init__(self, parts: Parts[OracleOptions]) -> None:
        settings, options = parts.settings, parts.options
        self._gamma = options.gamma
        self._alpha = torch.tensor(options.curve, dtype=torch.float64)
        self._streams = parts.streams
        self._vocabulary = parts.vocabulary
        self._device = parts.device
        table = uniforms_to_come(parts.streams, self._gamma, self._alpha, settings.max_new_tokens)
        self._future = parts.target_continuation(Given(settings.seed, parts.streams.sequences, table=table))
        self._prompt_lengths = [0] * parts.batch

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        self._prompt_lengths = [len(prompt) for prompt in prompts]

    def propose(self, state: State, depth: int) -> DraftTree:
        right = (self._streams.uniforms(state.round, self._gamma).draft < self._alpha).tolist()
        drafts = [
            [
                self._node(i, token, right[b][i])
                for i, token in enumerate(self._ahead(b, text)[: min(self._gamma, depth)])
            ]
            for b, text in enumerate(state.texts)
        ]
        return deterministic_trees(drafts, self._device)

    def _ahead(self, b: int, text: Sequence[int]) -> list[int]:
        """The coming tokens; empty once the text differs from the one written before."""
        written = text[self._prompt_lengths[b] :]
        follows = list(written) == self._future[b][: len(written)]
        return self._future[b][len(written) :] if follows else []

    def _node(self, i: int, token: int, right: bool) -> TrieNode:
        if right:
            return TrieNode(i - 1, token, "oracle")
        return TrieNode(i - 1, (token + 1) % self._vocabulary, "oracle, made wrong")


def uniforms_to_come(streams: Streams, gamma: int, alpha: Tensor, count: int) -> Tensor:
    """[B, count]: the uniforms with which the target's next tokens will be drawn, round by round. `alpha` is [gamma].

    A round accepts the tokens before the first wrong one and draws one more, each with the uniform of its slot.
    """
    rows: list[list[float]] = [[] for _ in streams.sequences]
    index = 0
    while min(map(len, rows)) < count:
        uniforms = streams.uniforms(index, gamma)
        right = (uniforms.draft < alpha).long().cumprod(-1).sum(-1).tolist()
        for row, accepted, last in zip(rows, right, uniforms.last.tolist(), strict=True):
            row += last[: accepted + 1]
        index += 1
    return torch.tensor([row[:count] for row in rows], dtype=torch.float64)


INFO = DrafterInfo(
    name="oracle",
    title="Oracle (synthetic acceptance)",
    paper="the acceptance model of Leviathan et al. 2211.17192",
    create=Oracle,
    options=OracleOptions,
    synthetic=True,
)
