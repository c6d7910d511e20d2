"""Plain decoding: the empty tree. The baseline runs through the same loop as speculative decoding."""

from __future__ import annotations

from draftscope.drafters.drafter import Drafter, DrafterInfo, Parts, State
from draftscope.drafters.options import DrafterOptions
from draftscope.verify.tree import DraftTree, empty


class Plain(Drafter):
    """Proposes nothing, so each round emits one token, the target's own."""

    def __init__(self, parts: Parts[DrafterOptions]) -> None:
        self._device = parts.device

    def propose(self, state: State, depth: int) -> DraftTree:
        return empty(len(state.texts), self._device)

    def select_rows(self, rows: list[int]) -> bool:
        return True


INFO = DrafterInfo(
    name="plain", title="Plain decoding", paper="one token a forward", create=Plain, options=DrafterOptions
)
