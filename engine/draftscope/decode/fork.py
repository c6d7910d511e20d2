"""A fork: a lane that leaves another one at a token, with a uniform of its own or a token that the reader chose.

It starts from exact token ids, not from text read again: the same text may have other tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from draftscope.base.errors import DraftscopeError
from draftscope.trace import events

if TYPE_CHECKING:
    from draftscope.base.text import Pieces
    from draftscope.decode.lab import Lab


@dataclass(frozen=True)
class ForkPoint:
    """Round `round` of `lane` is left behind `token_ids`, all that the lane had written up to there.

    With `forced` the last of them was never written: it stands where the lane had another token.
    """

    lane: str
    round: int
    token_ids: tuple[int, ...]
    forced: bool = False

    def given(self, lab: Lab) -> list[int]:
        """The tokens, or one sentence on why nothing can follow them."""
        if self.forced and not self.token_ids:
            raise DraftscopeError("A fork with a forced token names no token; choose one of the contest's rows.")
        for token in self.token_ids:
            if not 0 <= token < lab.target.vocabulary:
                known = f"'{lab.target.name}' knows 0 to {lab.target.vocabulary - 1}"
                raise DraftscopeError(f"token = {token}: {known}; choose one of the contest's rows.")
            if token in lab.eos:
                raise DraftscopeError(f"token = {token} ends the text, so nothing can follow it; choose another one.")
        return list(self.token_ids)

    def told(self, pieces: Pieces) -> events.Fork:
        """The same for a trace, with the bytes that each token stands for."""
        ids = list(self.token_ids)
        return events.Fork(
            lane=self.lane, round=self.round, token_ids=ids, raw=[pieces.shown(t) for t in ids], forced=self.forced
        )
