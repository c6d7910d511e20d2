"""N-gram drafting (prompt lookup): copies what followed the latest occurrence of the text's last tokens.

Saxena, "Prompt lookup decoding", 2023. It needs no model and has no distribution: a deterministic chain. It is fast
where a text repeats itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from draftscope.drafters.drafter import Drafter, DrafterInfo, Parts, State
from draftscope.drafters.options import NgramOptions
from draftscope.verify.tree import DraftTree, deterministic_chains


class Ngram(Drafter):
    """Looks for the last `ngram` tokens earlier in the text, then for the last `ngram` - 1, down to one."""

    def __init__(self, parts: Parts[NgramOptions]) -> None:
        self._gamma = parts.options.gamma
        self._longest = parts.options.ngram
        self._device = parts.device
        self._indexes = [NgramIndex(self._longest) for _ in range(parts.batch)]

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        self._indexes = [NgramIndex(self._longest) for _ in prompts]

    def propose(self, state: State, depth: int) -> DraftTree:
        for index, text in zip(self._indexes, state.texts, strict=True):
            index.read(text)
        matches = [index.find(text) for index, text in zip(self._indexes, state.texts, strict=True)]
        limit = min(self._gamma, depth)
        drafts = [list(text[at : at + limit]) if at else [] for (at, _), text in zip(matches, state.texts, strict=True)]
        origin = [f"{length}-gram, seen at token {at}" for at, length in matches]
        return deterministic_chains(drafts, origin, self._device)

    def select_rows(self, rows: list[int]) -> bool:
        self._indexes = [self._indexes[row] for row in rows]
        return True


class NgramIndex:
    """For each n-gram, the position of the token after its last occurrence."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._behind: dict[tuple[int, ...], int] = {}
        self._read = 1  # positions below this are indexed

    def read(self, text: Sequence[int]) -> None:
        """Indexes the tokens that the text, which only grows, has gained since it was last read."""
        for at in range(self._read, len(text)):
            for length in range(1, min(self._longest, at) + 1):
                self._behind[tuple(text[at - length : at])] = at
        self._read = max(self._read, len(text))

    def find(self, text: Sequence[int]) -> tuple[int, int]:
        """(position of the continuation, length of the match); (0, 0) without a match. `text` begins with what was read
        and may be longer."""
        for length in range(min(self._longest, len(text)), 0, -1):
            at = self._behind.get(tuple(text[-length:]), 0)
            if at:
                return at, length
        return 0, 0

    def guess(self, text: Sequence[int], count: int) -> list[int]:
        """Up to `count` tokens that may follow `text`."""
        at, _ = self.find(text)
        return list(text[at : at + count]) if at else []


INFO = DrafterInfo(
    name="ngram",
    title="N-gram (prompt lookup)",
    paper="Saxena 2023, prompt lookup decoding",
    create=Ngram,
    options=NgramOptions,
    idle="no earlier text repeats",
)
