"""The loaded models: a target, perhaps draft models and heads, and their tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

from draftscope.base.text import Pieces
from draftscope.drafters import TextDraftModel
from draftscope.models.counter import ForwardCounter
from draftscope.models.heads import Head
from draftscope.models.loading.checkpoints import end_of_text, other_tokens
from draftscope.models.loading.generation import not_applied
from draftscope.models.model import Model

THROUGH_TEXT = "slem"  # the drafter that replaces 'draft' if the draft model has another tokenizer


@dataclass(frozen=True)
class NamedHead:
    """A head that reads the target's features, and its name on screens."""

    network: Head
    name: str


@dataclass(eq=False, repr=False)
class LoadedPair:
    """A target, perhaps a draft model, and their tokenizer.

    `smaller` models draft for the draft model in a cascade, the largest first. `foreign` is a draft model with another
    tokenizer, in place of `draft`. `heads` are by kind.
    """

    target: Model
    draft: Model | None
    tokenizer: Any
    heads: Mapping[str, NamedHead] = field(default_factory=dict)
    smaller: tuple[Model, ...] = ()
    foreign: TextDraftModel | None = None

    def __post_init__(self) -> None:
        self.pieces = Pieces(self.tokenizer)
        self.eos = end_of_text(self.target, self.tokenizer)
        self.not_applied = not_applied(self.target.network)  # settings of its generation_config, with their values
        self.usual: str | None = None  # the drafter that measured fastest with these models, where that is known

    def __repr__(self) -> str:
        draft = self.text_draft
        drafts = [f"draft {draft.model.name}"] if draft is not None else []
        drafts += [f"heads {', '.join(self.heads)}"] if self.heads else []
        dtype = str(self.target.dtype).removeprefix("torch.")
        return f"{type(self).__name__}({', '.join([self.target.name, *drafts, f'{dtype} on {self.target.device}'])})"

    @property
    def models(self) -> list[Model]:
        """Every model that reads the target's tokens, the target first."""
        return [self.target, *([self.draft] if self.draft is not None else []), *self.smaller]

    @property
    def text_draft(self) -> TextDraftModel | None:
        """The draft model of drafters that draft through text, with its own tokenizer or the target's."""
        return self.foreign or (TextDraftModel(self.draft, self.tokenizer) if self.draft is not None else None)

    @property
    def batches(self) -> bool:
        """Can unequal texts be decoded together? A model that makes its own masks takes one at a time."""
        every = [*self.models, *([self.foreign.model] if self.foreign is not None else [])]
        return all(model.trees for model in every)

    @property
    def left_out(self) -> list[str]:
        """What of the models' files was not loaded, a sentence each."""
        every = [*self.models, *([self.foreign.model] if self.foreign is not None else [])]
        return [sentence for model in every for sentence in model.left_out]

    @property
    def limits(self) -> list[str]:
        """What these models cannot do here, a sentence each."""
        sentences = [model.limits for model in self.models if model.limits]
        if self.foreign is not None:
            differing = other_tokens(self.tokenizer, self.foreign.tokenizer)
            sentences.append(
                f"'{self.foreign.model.name}' has another tokenizer than '{self.target.name}' ({len(differing):,} "
                f"tokens differ, for example '{differing[0]}'), so it drafts through text ('{THROUGH_TEXT}' or 'tli'). "
                "The output has exactly the target's distribution. The draft's own distribution over the target's "
                f"tokens is not known: '{THROUGH_TEXT}' shows a point mass, 'tli' the distribution over the tokens "
                "that both tokenizers have."
            )
        return sentences

    def uncounted(self) -> Self:
        """The same models, but the forwards of this copy's target are not counted with the others."""
        quiet = copy(self)
        quiet.target = copy(self.target)
        quiet.target.counter = ForwardCounter()
        return quiet
