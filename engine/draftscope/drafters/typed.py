"""You draft: a text that a person typed, proposed as one deterministic chain, verified in one forward of the target."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from draftscope.drafters.drafter import Drafter, DrafterInfo, Parts, State
from draftscope.drafters.options import MAX_NODES, TypedOptions
from draftscope.verify.tree import DraftTree, deterministic_chains


class Typed(Drafter):
    """Proposes the rest of the typed text as long as the output follows it, then nothing."""

    def __init__(self, parts: Parts[TypedOptions]) -> None:
        self._device = parts.device
        self._typed: list[int] = parts.tokenizer(parts.options.typed, add_special_tokens=False)["input_ids"]
        self._prompt_lengths = [0] * parts.batch

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        self._prompt_lengths = [len(prompt) for prompt in prompts]

    def propose(self, state: State, depth: int) -> DraftTree:
        limit = min(depth, MAX_NODES)
        drafts = [
            self._rest(text[start:])[:limit] for text, start in zip(state.texts, self._prompt_lengths, strict=True)
        ]
        return deterministic_chains(drafts, ["typed"] * len(drafts), self._device)

    def _rest(self, written: Sequence[int]) -> list[int]:
        follows = list(written) == self._typed[: len(written)]
        return self._typed[len(written) :] if follows else []


INFO = DrafterInfo(
    name="typed",
    title="You draft",
    paper="a person types the draft; deterministic children",
    create=Typed,
    options=TypedOptions,
)
