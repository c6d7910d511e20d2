"""Drafting level by level: one forward for each level; children are drawn from its distributions, or their top k.

For chains and fixed trees. A source of distributions (a draft model, an EAGLE head) gives its first distribution and
the distributions after each level. The rest is here: drawing with the round's uniforms, lengths that are decided while
drafting, siblings that do not exist, and the `DraftTree`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache, partial
from time import perf_counter

import torch
from torch import Tensor

from draftscope.drafters.drafter import Drafter, Outcome, Parts, State
from draftscope.drafters.length import Lengths
from draftscope.drafters.options import DrafterOptions
from draftscope.models.forward.graphs import Outputs
from draftscope.verify.drawing import draw
from draftscope.verify.sampling import draw_distinct, entropies
from draftscope.verify.tree import Counts, DraftTree, Topology, by_levels, empty, first_rows, with_descendants


@dataclass(frozen=True, eq=False)
class LevelPlan:
    """B equal trees. `places` says for each level where its children are in a table with a row for each slot and a
    column for each child of the slot with most; None if all slots have that many."""

    counts: Counts
    form: Topology
    places: tuple[Tensor | None, ...]

    @property
    def fed(self) -> list[int]:
        """The number of nodes in each level that the draft reads: all levels but the last."""
        return [sum(level) for level in self.counts[:-1]]


@dataclass(frozen=True)
class Drafted:
    """What was drafted in so many levels: tokens [B, N], the distributions [B, slots, V] that they came from, which are
    never-accepted nodes [B, N], and the milliseconds of each level; none inside a CUDA graph."""

    levels: int
    tokens: Tensor
    distributions: Tensor
    never_accepted: Tensor
    times: tuple[float, ...] = ()

    @property
    def parts(self) -> Outputs:
        """Its tensors."""
        return self.tokens, self.distributions, self.never_accepted


class Levels(Drafter):
    """Slot s of level d gets `counts[d][s]` children: drawn if `sampled`, otherwise the top k.

    Under greedy decoding children are the top k, the limit of drawing without replacement. `lengths` may end a chain
    before `counts` does. A policy may change `counts` before any round, because only committed text is cached.
    """

    step = "draft step"  # a node's origin is this and its depth
    shares = True  # whether arms of a bandit that differ only in `counts` can share one drafter

    def __init__(
        self, parts: Parts[DrafterOptions], counts: Counts, sampled: bool, lengths: Lengths | None = None
    ) -> None:
        self._sampling = parts.sampling
        self._device = parts.device
        self.counts = counts
        self.draws = sampled and not parts.sampling.greedy
        self._lengths = lengths

    @abstractmethod
    def first(self, state: State) -> Tensor | None:
        """The distribution [B, 1, V] after the pending token; None if nothing can be drafted yet."""

    @abstractmethod
    def below(self, form: Topology, children: Tensor, start: int) -> Tensor:
        """The distributions [B, n, V] after `children` [B, n], a whole level of `form` that begins at node `start`."""

    def propose(self, state: State, depth: int) -> DraftTree:
        counts = self.counts[:depth]
        going = self._lengths.begin() if self._lengths else []  # empty if all draft their full length
        batch = len(state.texts)
        if not counts or (going and not any(going)):
            return empty(batch, self._device)
        drafted = self.drafted(state, _plan(counts, batch, self._device), going)
        if drafted is None:
            return empty(batch, self._device)
        return self._tree(counts[: drafted.levels], drafted)

    def drafted(self, state: State, plan: LevelPlan, going: list[bool]) -> Drafted | None:
        """All levels, or fewer once every sequence has stopped; None if nothing can be drafted yet."""
        began = perf_counter()
        distribution = self.first(state)
        return None if distribution is None else self.grown(distribution, plan, state.uniforms.draft, going, began)

    def grown(
        self, distribution: Tensor, plan: LevelPlan, uniforms: Tensor, going: list[bool], began: float
    ) -> Drafted:
        """Drafts all levels from the first `distribution` [B, 1, V], with uniforms [B, N]; times begin at `began`."""
        tokens: list[Tensor] = []
        distributions, never_accepted, times = [], [], []
        start = 0
        for level, (counts, places) in enumerate(zip(plan.counts, plan.places, strict=True)):
            children, real = self._children(distribution, counts, places, uniforms[:, start : start + sum(counts)])
            distributions.append(distribution)
            tokens.append(children)
            never_accepted.append(_stopped(going, real) if going else real.logical_not_())
            times.append((perf_counter() - began) * 1e3)
            began = perf_counter()
            if going and not any(going := self._go_on(going, distribution, children)):
                break
            if level + 1 < len(plan.counts):
                distribution = self.below(plan.form, children, start)
            start += children.shape[1]
        never = torch.cat(never_accepted, 1)
        never = with_descendants(never, plan.form) if plan.form.width > 1 else never
        return Drafted(len(tokens), torch.cat(tokens, 1), torch.cat(distributions, 1), never, tuple(times))

    def observe(self, outcome: Outcome) -> None:
        if self._lengths:
            self._lengths.observe([len(path) for path in outcome.paths])

    def keep_lengths(self, rows: list[int]) -> None:
        """Keeps the length rules of `rows` of the batch only; the other sequences have ended."""
        if self._lengths:
            self._lengths.select_rows(rows)

    def _go_on(self, going: list[bool], distribution: Tensor, children: Tensor) -> list[bool]:
        """Which sequences draft one more token after `children` [B, 1], drawn from `distribution` [B, 1, V]."""
        q = distribution[:, 0].gather(1, children)[:, 0].tolist()
        assert self._lengths is not None
        return self._lengths.go_on(going, q, partial(entropies, distribution[:, 0]))

    def _children(
        self, distribution: Tensor, counts: tuple[int, ...], places: Tensor | None, uniforms: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Tokens [B, n] drawn in order from `distribution` [B, slots, V], and whether each exists: a distribution may
        have fewer tokens than children are wanted.

        The number of children of a slot is fixed before any is drawn.
        """
        slots, most = len(counts), max(counts)
        if self.draws:
            if most == 1 and places is None:
                return draw(distribution, uniforms), torch.ones_like(uniforms, dtype=torch.bool)
            wide = uniforms
            if places is not None:
                wide = torch.full((len(distribution), slots * most), 0.5, dtype=uniforms.dtype, device=uniforms.device)
                wide[:, places] = uniforms
            tokens, real = draw_distinct(distribution, wide.view(len(distribution), slots, most))
        else:
            top = distribution.max(-1, keepdim=True) if most == 1 else distribution.topk(most)  # max is faster
            tokens, real = top.indices, top.values > 0
        tokens, real = tokens.flatten(1), real.flatten(1)
        return (tokens, real) if places is None else (tokens[:, places], real[:, places])

    def _tree(self, counts: Counts, drafted: Drafted) -> DraftTree:
        batch, rows = len(drafted.tokens), drafted.distributions.shape[1]
        form = by_levels(counts, batch, self._device)
        shown_row = first_rows(rows, form.nodes + 1, batch, self._device)  # slots with children come first
        origin = tuple(f"{self.step} {depth}" for depth, level in enumerate(counts, 1) for _ in range(sum(level)))
        return DraftTree(
            topology=form,
            tokens=drafted.tokens,
            distributions=drafted.distributions,
            proposal_row=shown_row if self.draws else first_rows(0, form.nodes + 1, batch, self._device),
            shown_row=shown_row,
            never_accepted=drafted.never_accepted,
            origin=(origin,) * batch,
            drawn="all" if self.draws else "none",
            forward_ms=drafted.times,
        )


@lru_cache(maxsize=256)
def _plan(counts: Counts, batch: int, device: torch.device) -> LevelPlan:
    return LevelPlan(counts, by_levels(counts, batch, device), tuple(_places(count, device) for count in counts))


def _places(counts: tuple[int, ...], device: torch.device) -> Tensor | None:
    most = max(counts)
    places = [slot * most + rank for slot, count in enumerate(counts) for rank in range(count)]
    return torch.tensor(places, device=device) if len(places) < len(counts) * most else None


def _stopped(going: list[bool], real: Tensor) -> Tensor:
    """[B, 1]: never-accepted nodes, for sequences that stopped drafting before the others."""
    return ~real | ~torch.tensor(going, device=real.device)[:, None]
