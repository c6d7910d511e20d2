"""You draft: texts that people typed, proposed as one deterministic tree, verified in one forward of the target.

Sampled children of deterministic trees keep the target's distribution: the target draws its own token, and the child
with that token is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from draftscope.drafters.deterministic import TrieNode, deterministic_trees
from draftscope.drafters.drafter import Drafter, DrafterInfo, Parts, State
from draftscope.drafters.options import BETWEEN, MAX_NODES, TypedOptions
from draftscope.verify.tree import DraftTree


class Typed(Drafter):
    """Proposes the rest of each typed continuation as long as the output follows it, then nothing. What several of them
    begin with stands in the tree once, in the order in which they were typed."""

    def __init__(self, parts: Parts[TypedOptions]) -> None:
        self._device = parts.device
        texts = [text for text in parts.options.typed.split(BETWEEN) if text]
        self._typed: list[list[int]] = [parts.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        self._prompt_lengths = [0] * parts.batch

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        self._prompt_lengths = [len(prompt) for prompt in prompts]

    def propose(self, state: State, depth: int) -> DraftTree:
        drafts = [
            merged(self._rests(text[start:], depth))
            for text, start in zip(state.texts, self._prompt_lengths, strict=True)
        ]
        return deterministic_trees(drafts, self._device)

    def _rests(self, written: Sequence[int], depth: int) -> list[list[int]]:
        """What is left of the continuations that begin with the text so far, at most `depth` tokens of each."""
        n = len(written)
        return [typed[n : n + depth] for typed in self._typed if typed[:n] == list(written)]


def merged(continuations: Sequence[Sequence[int]]) -> list[TrieNode]:
    """Token sequences as one tree of at most MAX_NODES nodes; equal beginnings share theirs."""
    nodes: list[TrieNode] = []
    known: dict[tuple[int, int], int] = {}  # (parent, token) -> node
    for tokens in continuations:
        parent = -1
        for token in tokens:
            if (parent, token) not in known:
                if len(nodes) == MAX_NODES:
                    break
                known[parent, token] = len(nodes)
                nodes.append(TrieNode(parent, token, "typed"))
            parent = known[parent, token]
    return nodes


INFO = DrafterInfo(
    name="typed",
    title="You draft",
    paper="people type the draft; deterministic children",
    create=Typed,
    options=TypedOptions,
    idle="nothing was typed",
)
