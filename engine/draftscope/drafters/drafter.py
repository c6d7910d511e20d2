"""What a drafter is: it proposes a tree of tokens each round, and is given the result of the verification."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import torch
from torch import Tensor
from typing_extensions import TypeVar

from draftscope.drafters.options import (
    DrafterOptions,
    GammaOptions,
    LengthOptions,
    ShapeOptions,
    TreeShape,
)
from draftscope.drafters.registry import chain_of
from draftscope.drafters.settings import Settings
from draftscope.models.head_kinds import HeadKind
from draftscope.models.heads import Head
from draftscope.models.model import Model
from draftscope.trace.events import Annotation
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import Counts, DraftTree
from draftscope.verify.uniforms import DraftUniforms, Streams, Uniforms
from draftscope.verify.verify import Verification

OptionsT = TypeVar("OptionsT", bound=DrafterOptions, default=Any)
OptionsT_co = TypeVar("OptionsT_co", bound=DrafterOptions, covariant=True, default=Any)


@dataclass(frozen=True)
class State:
    """The state at the beginning of a round. `texts[b]` are all committed tokens, prompt included. The last one is
    pending: the target has not read it yet, and reads it as row 0 of this round's forward. `uniforms.draft` [B, N] fp64
    in [0, 1) are the random numbers to draw with, one for each node that the options allow. `clock` is the time before
    this round in milliseconds, on the session's own clock."""

    texts: Sequence[Sequence[int]]
    round: int
    uniforms: DraftUniforms
    clock: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """The result of a round, on the host: `paths[b]` are the accepted nodes from the root down, `last[b]` is the
    target's own token after them.

    `features` [B, N + 1, F] are the target's hidden states in this round (row 0: the pending token; row i + 1: node i)
    at the drafter's `layers`; None if it has none. `argmax` [B][N + 1] is the target's most likely token after each
    row, also after never-accepted nodes; None unless the drafter `reads_argmax`. `tokens` [B][N] are the tree's.
    `uniforms` are those that judged this round; a drafter from elsewhere gets None.
    `features` and `verification` are on the device; all else was read from it at once.
    """

    tree: DraftTree
    paths: Sequence[Sequence[int]]
    last: Sequence[int]
    features: Tensor | None = None
    argmax: Sequence[Sequence[int]] | None = None
    verification: Verification | None = None
    tokens: Sequence[Sequence[int]] = ()
    uniforms: Uniforms | None = None


class Drafter(ABC):
    """One drafter for one session of B sequences. `begin` is called once, then `propose` and `observe` in turn; only
    `propose` must be written.

    `layers` are the layers of the target whose hidden states it reads (see `Model.forward_with_features`); they are
    captured in the target's own forwards, of the prompt and of each round. `reads_argmax`: `observe` also gets the
    target's most likely token after every row. `options`: what the class reads where it is given by itself, without a
    `DrafterInfo`. It is made with one argument, its `Parts`.
    """

    layers: tuple[int, ...] = ()
    reads_argmax = False
    options: type[DrafterOptions] = GammaOptions

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:  # noqa: B027 - not all read them
        """Reads the prompts: all their tokens, of which the last is pending.

        `features` [B, T, F] has a row for each token except the pending one; shorter prompts are padded on the right.
        None if `layers` is empty.
        """

    @abstractmethod
    def propose(self, state: State, depth: int) -> DraftTree:
        """A tree for each sequence. The empty tree is always allowed.

        Nodes deeper than `depth` (0 or more) cannot be accepted any more; the session turns them into never-accepted
        nodes. So a drafter may propose its usual tree near the end of a text, and a sequence's tree does not depend on
        the lengths of its neighbours.
        """

    def overlap_start(self, tree: DraftTree) -> None:  # noqa: B027 - most drafters wait
        """Called before the target verifies `tree`. Work started here runs at the same time; `observe` waits for it."""

    def observe(self, outcome: Outcome) -> None:  # noqa: B027 - most drafters do not need the result
        """Receives the result of the last tree, before the next round."""

    def select_rows(self, rows: list[int]) -> bool:
        """Keeps only `rows` of the batch, because the other sequences have ended. False if the drafter cannot do that;
        then all rows stay."""
        return False

    def annotations(self, row: int) -> Sequence[Annotation]:
        """What a trace records about the last round of sequence `row`. Not timed, and not called without a trace."""
        return ()


@dataclass(frozen=True)
class TextDraftModel:
    """A draft model and its own tokenizer, which need not be the target's."""

    model: Model
    tokenizer: Any


@dataclass(frozen=True)
class Parts(Generic[OptionsT_co]):
    """What a drafter is made from: `settings`, its own `options` (of the class that its `DrafterInfo` names), and
    `sampling`, which makes distributions and draws tokens as the target's are.

    `batch` is B, the number of sequences; `capacity` the slots that a cache needs for the whole run; `vocabulary` the
    target's V, padded rows included: the width of every distribution. All tensors lie on `device`. `target` is for
    drafters that use its layers; the session alone runs its verify forwards. `smaller` are the draft models of a
    cascade below `draft`, the largest first; `text_draft` is for drafters through text (with another tokenizer, `draft`
    is None); `heads`, by kind, are those that were loaded for this target. A drafter that draws more than the session's
    uniforms takes a stream `below` these `streams`.

    `target_continuation` writes the target's own text with these uniforms, not timed. `cost(gamma, batch)` is that of a
    round in plain rounds; `cost_like(drafter, gamma, batch)` another drafter's. `counts()` is the tree with most tokens
    for its time, by measured acceptance and cost. Both are measured where the `DrafterInfo` says that it chooses by
    them. A drafter from elsewhere gets no seed, only streams `below`, and no continuation: `guard.without_judge`.
    """

    settings: Settings
    options: OptionsT_co
    sampling: Sampling
    batch: int
    capacity: int
    device: torch.device
    tokenizer: Any
    vocabulary: int
    target: Model
    draft: Model | None
    smaller: tuple[Model, ...]
    text_draft: TextDraftModel | None
    heads: Mapping[str, Head]
    streams: Streams
    target_continuation: Callable[[Streams], list[list[int]]]
    cost: Callable[[int, int], float]
    cost_like: Callable[[str, int, int], float]
    counts: Callable[[], Counts]


@dataclass(frozen=True)
class DrafterInfo(Generic[OptionsT]):
    """A drafter's entry: register one under the entry-point group `draftscope.drafters` to add your own.

    `paper` is an arXiv number, or empty. `create` makes the drafter from its `Parts`. `options` declares what it reads
    beside the general settings, `nodes` the most nodes of a round where the options cannot say it. `needs_draft`,
    `needs_text_draft` (of any tokenizer) and `head` are the models without which it cannot run; `grows_trees`: not with
    models that take chains only; `unfit` says why it cannot draft for a target, or "". `exact` says that the output has
    the target's distribution; `synthetic` that its acceptance is set, not achieved; `by_clock` that it decides by
    measured times, so that above temperature 0 the same seed repeats the distribution but not the text. `chooses_by`:
    the drafters whose calibrated costs it chooses by, of several sources; `chooses_tree`: it drafts the tree of
    `Parts.counts`; `arms`: the drafters that it chooses among, each with its settings. What it chooses by is measured
    before a session of it begins. `idle`: why a round of it may draft nothing.
    `bench_shape`: the tree that a benchmark gives it if it reads a shape.
    `source` is the package or file that it is from, filled in where it is given; empty for a built-in one.
    """

    name: str
    title: str
    paper: str
    create: Callable[[Parts[OptionsT]], Drafter]
    options: type[OptionsT]
    nodes: Callable[[Settings], int] | None = None
    needs_draft: bool = False
    needs_text_draft: bool = False
    head: HeadKind | None = None
    grows_trees: bool = False
    exact: bool = True
    synthetic: bool = False
    by_clock: bool = False
    chooses_by: tuple[str, ...] = ()
    chooses_tree: bool = False
    arms: Callable[[Settings], Sequence[tuple[DrafterInfo, Settings]]] = lambda settings: ()
    source: str = ""
    idle: str = ""
    bench_shape: TreeShape = ShapeOptions().shape
    unfit: Callable[[Model], str] = lambda target: ""

    @property
    def needs_head(self) -> str:
        """The name of the kind of head that it needs; empty for none."""
        return "" if self.head is None else self.head.name

    @property
    def costs_like(self) -> str:
        """The drafter of chains whose draft steps cost what this one's do."""
        return self.needs_head or ("draft" if self.needs_draft else chain_of(self.name))

    @property
    def uses(self) -> tuple[str, ...]:
        """The names of the options that it reads."""
        return tuple(self.options.model_fields)

    def max_nodes(self, settings: Settings) -> int:
        """The most nodes that a round may have under these settings."""
        return self.nodes(settings) if self.nodes is not None else settings.options(self.options).nodes

    def chooses_cost(self, settings: Settings) -> bool:
        """Whether it, or an arm of it, chooses by what rounds cost; only those of built-in drafters are calibrated."""
        by_length = "draft_length" in self.uses and settings.options(LengthOptions).draft_length == "cost"
        chooses = not self.source and (by_length or bool(self.chooses_by))
        return chooses or any(arm.chooses_cost(chosen) for arm, chosen in self.arms(settings))

    def chooses_shape(self, settings: Settings) -> bool:
        """Whether it, or an arm of it, drafts the tree with the most tokens for its time."""
        return self.chooses_tree or any(arm.chooses_shape(chosen) for arm, chosen in self.arms(settings))

    def costed(self, settings: Settings) -> tuple[str, ...]:
        """The drafters whose costs it chooses by, itself first."""
        return (self.name, *(arm.name for arm, _ in self.arms(settings)))


AnyDrafter = str | DrafterInfo | type[Drafter]  # a name or 'file.py:NAME', an entry, or a class
