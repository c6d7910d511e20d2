"""Drafting level by level: one forward a level, children drawn from its laws or their top k. Chains and fixed trees.

What a source of laws (a draft model, an EAGLE head) has to say is its first law and the laws below each level; the rest
is here: drawing with the round's coins, lengths chosen on the way, siblings that do not exist, the `DraftTree`.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from time import perf_counter

import torch
from torch import Tensor

from draftscope.drafters.base import Drafter, Outcome, Parts, State
from draftscope.drafters.length import lengths_of
from draftscope.sampling import draw, draw_distinct
from draftscope.streams import Coins
from draftscope.tree import Counts, DraftTree, Topology, by_levels, empty, with_descendants


class Levels(Drafter):
    """`counts[d][s]` children of slot s of level d; `sampled` draws them, otherwise they are the top k.

    `chooses_length`: a chain that may end before `counts` does, as the setting `draft_length` says. Under greedy
    decoding children are the top k, the limit of drawing without replacement. A policy may set `counts` anew before any
    round: what is cached is the committed text.
    """

    step = "draft step"  # what a node's origin says, before its depth
    shares = True  # may arms of a bandit that differ in `counts` alone be one and the same drafter?

    def __init__(self, parts: Parts, counts: Counts, sampled: bool, chooses_length: bool = False) -> None:
        self._sampling = parts.sampling
        self._device = parts.device
        self.counts = counts
        self.draws = sampled and not parts.sampling.greedy
        self._lengths = lengths_of(parts.settings, parts.cost, len(counts), parts.batch) if chooses_length else []

    @abstractmethod
    def first(self, state: State) -> Tensor | None:
        """The law [B, 1, V] below the pending token; None where there is nothing to draft from yet."""

    @abstractmethod
    def below(self, form: Topology, children: Tensor, start: int) -> Tensor:
        """The laws [B, n, V] below `children` [B, n], which are the nodes from `start` on of `form`, a whole level."""

    def propose(self, state: State, depth: int) -> DraftTree:
        counts = self.counts[:depth]
        going = [length.begin() for length in self._lengths]  # empty where all draft their full length
        began = perf_counter()
        if not counts or (going and not any(going)) or (law := self.first(state)) is None:
            return empty(len(state.texts), self._device)
        form = by_levels(counts, len(state.texts), self._device)
        times, laws, tokens, scout = [], [], [], []
        start = 0
        for level, own in enumerate(counts):
            children, real = self._children(law, own, state.coins, start)
            laws.append(law)
            tokens.append(children)
            scout.append(_stopped(going, real) if going else real.logical_not_())
            times.append((perf_counter() - began) * 1e3)
            began = perf_counter()
            if going and not any(going := self._go_on(going, law, children)):
                form = by_levels(counts[: level + 1], len(state.texts), self._device)
                break
            if level + 1 < len(counts):
                law = self.below(form, children, start)
            start += children.shape[1]
        return self._tree(form, tokens, scout, laws, times)

    def observe(self, outcome: Outcome) -> None:
        for length, path in zip(self._lengths, outcome.paths, strict=False):  # no lengths where none is chosen
            length.observe(len(path))

    def _go_on(self, going: list[bool], law: Tensor, children: Tensor) -> list[bool]:
        """Which sequences draft another token, after `children` [B, 1] were drawn from `law` [B, 1, V]."""
        q = law[:, 0].gather(1, children)[:, 0].tolist()
        entropy = torch.special.entr(law[:, 0]).sum(-1).tolist()
        each = zip(going, self._lengths, q, entropy, strict=True)
        return [more and length.goes_on(likely, flat) for more, length, likely, flat in each]

    def _children(self, law: Tensor, counts: tuple[int, ...], coins: Coins, start: int) -> tuple[Tensor, Tensor]:
        """Tokens [B, n] in draw order below `law` [B, slots, V], and whether each is real (a short law has fewer).

        How many a slot has was settled before any was drawn.
        """
        slots, most, total = len(counts), max(counts), sum(counts)
        places = _places(counts, most, law.device) if total < slots * most else None
        if self.draws:
            level = coins.draft[:, start : start + total]
            if most == 1 and places is None:
                return draw(law, level), torch.ones_like(level, dtype=torch.bool)
            wide = level
            if places is not None:
                wide = torch.full((len(law), slots * most), 0.5, dtype=level.dtype, device=level.device)
                wide[:, places] = level
            tokens, real = draw_distinct(law, wide.view(len(law), slots, most))
        else:
            top = law.topk(most, dim=-1)
            tokens, real = top.indices, top.values > 0
        tokens, real = tokens.flatten(1), real.flatten(1)
        return (tokens, real) if places is None else (tokens[:, places], real[:, places])

    def _tree(
        self, form: Topology, tokens: list[Tensor], scout: list[Tensor], laws: list[Tensor], times: list[float]
    ) -> DraftTree:
        belief = _slot_rows(form.nodes + 1, sum(law.shape[1] for law in laws), form.batch, self._device)
        family = belief if self.draws else torch.full_like(belief, -1)
        origin = tuple(f"{self.step} {depth}" for depth in form.depth[0, 1:].tolist())
        return DraftTree(
            topology=form,
            tokens=torch.cat(tokens, 1),
            laws=torch.cat(laws, 1),
            family=family,
            belief=belief,
            scout=with_descendants(torch.cat(scout, 1), form) if form.width > 1 else torch.cat(scout, 1),
            origin=(origin,) * form.batch,
            drawn="all" if self.draws else "none",
            forward_ms=tuple(times),
        )


@lru_cache(maxsize=256)
def _places(counts: tuple[int, ...], most: int, device: torch.device) -> Tensor:
    """Where the children stand in a table with `most` columns for each slot."""
    return torch.tensor([slot * most + rank for slot, own in enumerate(counts) for rank in range(own)], device=device)


def _slot_rows(slots: int, laws: int, batch: int, device: torch.device) -> Tensor:
    """Slots with children come first and have a law each; the leaves have none."""
    rows = torch.arange(slots, device=device)
    return torch.where(rows < laws, rows, -1).expand(batch, -1)


def _stopped(going: list[bool], real: Tensor) -> Tensor:
    """[B, 1]: scouts, where a sequence had stopped drafting before the others."""
    return ~real | ~torch.tensor(going, device=real.device)[:, None]
