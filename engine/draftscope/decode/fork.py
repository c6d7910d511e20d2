"""A fork: a lane that leaves another one at a token, with new random numbers or with a token that the reader chose.

It starts from exact token ids, not from text tokenised again: the same text may have other tokens. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from draftscope.base.errors import DraftscopeError
from draftscope.trace import events

if TYPE_CHECKING:
    from draftscope.base.text import Pieces


@dataclass(frozen=True)
class ForkPoint:
    """Lane `lane` is left in its round `round`, after `token_ids`: all that it had written until then.

    If `forced`, it never wrote the last of them: the reader chose that token where the lane had another one. `run` is
    the lane's, empty where nobody shows it.
    """

    lane: str
    round: int
    token_ids: tuple[int, ...]
    forced: bool = False
    run: str = ""

    def tokens_for(self, vocabulary: int, eos: Collection[int]) -> list[int]:
        """The tokens that the fork starts with. Raises `DraftscopeError` if no text of a target with this vocabulary
        size and these ends of text can follow them."""
        if self.forced and not self.token_ids:
            raise DraftscopeError("A fork with a forced token names no token; choose a row of the decision.")
        for token in self.token_ids:
            if not 0 <= token < vocabulary:
                known = f"the target knows 0 to {vocabulary - 1}"
                raise DraftscopeError(f"token = {token}: {known}; choose a row of the decision.")
            if token in eos:
                raise DraftscopeError(f"token = {token} ends the text, so nothing can follow it; choose another one.")
        return list(self.token_ids)

    def event(self, pieces: Pieces) -> events.Fork:
        """The fork as a trace records it, with each token's bytes."""
        ids = list(self.token_ids)
        return events.Fork(
            lane=self.lane, round=self.round, token_ids=ids, raw=[pieces.shown(t) for t in ids], forced=self.forced
        )
