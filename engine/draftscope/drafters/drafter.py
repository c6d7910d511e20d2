"""What a drafter is: something that proposes a tree and hears what became of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import torch
from torch import Tensor
from typing_extensions import TypeVar

from draftscope.base.settings import LOSSY
from draftscope.drafters.options import DrafterOptions, RuleOptions
from draftscope.drafters.settings import Settings
from draftscope.models.heads import Head
from draftscope.models.model import Model
from draftscope.trace.events import Annotation
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import Counts, DraftTree
from draftscope.verify.uniforms import Streams, Uniforms
from draftscope.verify.verify import Rule, Verification

OptionsT = TypeVar("OptionsT", bound=DrafterOptions, default=Any)
OptionsT_co = TypeVar("OptionsT_co", bound=DrafterOptions, covariant=True, default=Any)


@dataclass(frozen=True)
class State:
    """What stands when a round begins. `texts[b]` is everything committed, prompt included; its last token is pending:
    the target has not read it yet and reads it as row 0 of this round's forward. `clock` is the milliseconds of work
    before this round, on the session's own clock."""

    texts: Sequence[Sequence[int]]
    round: int
    uniforms: Uniforms
    clock: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What became of a tree, read on the host: accepted nodes from the root down, and the target's own token.

    `features` [B, N + 1, F] are the target's hidden states of this round's rows (row 0: the pending token; row i + 1:
    node i) at the layers that the drafter asked for; None where it asked for none. `argmax` [B, N + 1] is the target's
    likeliest token below each row, never-accepted nodes included; None where the drafter does not read it. `result` is
    all that was weighed, on the device.
    """

    tree: DraftTree
    paths: Sequence[Sequence[int]]
    last: Sequence[int]
    features: Tensor | None = None
    argmax: Tensor | None = None
    verification: Verification | None = None


class Drafter(ABC):
    """One drafter for one session of B sequences. `begin` once, then `propose` and `observe` in turn.

    `layers` are the target's hidden states that it reads (see `Model.forward_with_features`): captured in the target's
    own forwards, the prompt's and each round's. `reads_argmax`: it hears the target's likeliest token below every row.
    """

    layers: tuple[int, ...] = ()
    reads_argmax = False

    @abstractmethod
    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        """Reads the prompts (all their tokens; the last of each is the pending one).

        `features` [B, T, F]: one row for each token but the pending one, for prompts shorter than the longest padded
        to the right; None where `layers` is empty.
        """

    @abstractmethod
    def propose(self, state: State, depth: int) -> DraftTree:
        """A tree for each sequence; the empty tree is always allowed.

        `depth`, at least 0, is how deep one can still be accepted. Deeper nodes are made never-accepted nodes: a
        drafter may grow its usual tree near the end, so that a sequence's tree does not depend on how much its
        neighbours have left.
        """

    def overlap_start(self, tree: DraftTree) -> None:  # noqa: B027 - most drafters wait
        """The target is about to verify `tree`: what is begun here runs beside it, and `observe` waits for its end."""

    def observe(self, outcome: Outcome) -> None:  # noqa: B027 - most drafters need not listen
        """Hears the result on the last tree, before the next round."""

    def select_rows(self, rows: list[int]) -> bool:
        """Other sequences have ended: go on with `rows` of this batch alone. False where that cannot be: all stay."""
        return False

    def annotations(self, row: int) -> Sequence[Annotation]:
        """What a trace tells of the round just observed, of sequence `row`; asked on nobody's clock, if at all."""
        return ()


@dataclass(frozen=True)
class TextDraftModel:
    """A draft model and its own tokenizer, which need not be the target's."""

    model: Model
    tokenizer: Any


@dataclass(frozen=True)
class Parts(Generic[OptionsT_co]):
    """What a drafter is made from. `options` are its own, of the class that its `DrafterInfo` names."""

    settings: Settings
    options: OptionsT_co
    sampling: Sampling
    batch: int
    capacity: int  # slots that a cache needs for the whole run
    device: torch.device
    tokenizer: Any
    vocabulary: int  # the target's, padded rows included: the width of every distribution
    target: Model  # for drafters that use its layers; the session alone runs its verify forwards
    draft: Model | None
    smaller: tuple[Model, ...]  # draft models of a cascade below `draft`, the largest first
    text_draft: TextDraftModel | None  # for drafters through text; with another tokenizer, `draft` is None
    heads: Mapping[str, Head]  # by kind: those that were loaded for this target
    streams: Streams  # of the session's uniforms; a drafter that draws more takes a stream `below` them
    target_continuation: Callable[[Streams], list[list[int]]]  # the target's own text with these uniforms; not timed
    cost: Callable[[int, int], float]  # of a round of gamma tokens in a batch, in plain rounds; measured at first use
    counts: Callable[[], Counts]  # the tree with most tokens for its time, by measured acceptance and cost


@dataclass(frozen=True)
class DrafterInfo(Generic[OptionsT]):
    """A drafter's entry: register one under the entry-point group `draftscope.drafters` to add your own.

    `options` declares what it reads beside the general settings. `exact` says that the output has the target's
    distribution; `synthetic` that its acceptance is set, not achieved; `by_clock` that it decides by measured times, so
    that above temperature 0 the same seed repeats the distribution but not the text.
    """

    name: str
    title: str
    paper: str
    create: Callable[[Parts[OptionsT]], Drafter]
    options: type[OptionsT]
    nodes: Callable[[Settings], int] | None = None  # the most nodes of a round, where the options alone cannot say it
    needs_draft: bool = False
    needs_text_draft: bool = False  # needs a draft model, of any tokenizer
    needs_head: str = ""  # the kind of head that reads the target's features, see `draftscope.models.heads`
    grows_trees: bool = False  # some models take chains only
    exact: bool = True
    synthetic: bool = False
    by_clock: bool = False
    unfit: Callable[[Model], str] = lambda target: ""  # why it cannot draft for a target; empty where it can

    @property
    def uses(self) -> tuple[str, ...]:
        """The names of the options that it reads."""
        return tuple(self.options.model_fields)

    def most_nodes(self, settings: Settings) -> int:
        """The most nodes that a round may have under these settings."""
        return self.nodes(settings) if self.nodes is not None else settings.options(self.options).nodes

    def rule_of(self, settings: Settings) -> Rule:
        """How this drafter's chains are verified; the options of a rule count only for a drafter that reads them."""
        if "rule" not in self.uses:
            return Rule()
        chosen = settings.options(RuleOptions)
        return Rule(chosen.rule, chosen.lenience, chosen.agreement)

    def exact_with(self, settings: Settings) -> bool:
        """Does the output have the target's distribution under the rule that these settings choose? At temperature 0
        every rule is exact: each one follows a child only where it is the target's most likely token."""
        lossy = self.rule_of(settings).name in LOSSY and settings.temperature > 0
        return self.exact and not lossy
