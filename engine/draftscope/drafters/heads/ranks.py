"""Trees over independent positions, whose distributions do not depend on the tokens drafted before: a node is the
ranks of its tokens, position by position.

The prefixes in the tree are either the same every round, chosen by rank (Medusa's sparse tree, 2401.10774), or the most
probable ones under each round's distributions (DDTree, 2604.12989). Children are deterministic.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from draftscope.verify.tree import ByDepth, DraftTree, Topology, first_rows, topology, with_descendants

Path = tuple[int, ...]  # the rank of each token of a prefix in its own position's distribution


def best_first(log_distributions: Sequence[Sequence[float]], count: int) -> list[Path]:
    """The `count` most probable prefixes of independent positions, parents first (2604.12989, a heap).

    log_distributions[k]: the log probabilities of position k's tokens, largest first.
    """
    heap: list[tuple[float, Path]] = [(-log_distributions[0][0], (0,))]
    prefixes: list[Path] = []
    while heap and len(prefixes) < count:
        cost, path = heapq.heappop(heap)
        prefixes.append(path)
        position, rank = len(path) - 1, path[-1]
        if rank + 1 < len(log_distributions[position]):  # the next sibling
            sibling = cost + log_distributions[position][rank] - log_distributions[position][rank + 1]
            heapq.heappush(heap, (sibling, (*path[:-1], rank + 1)))
        if position + 1 < len(log_distributions):  # the first child
            heapq.heappush(heap, (cost - log_distributions[position + 1][0], (*path, 0)))
    return prefixes


@lru_cache(maxsize=64)
def sparse_tree(depth: int, width: int, count: int) -> list[Path]:
    """Medusa's sparse tree (2401.10774, section 2.3.3): the prefixes most likely to be accepted, by rank only.

    The paper measures how often each head's r-th guess is right. Without a measurement, the first guess is assumed to
    be right half of the time, a little less at each further head, and each next guess a third as often as the one
    before.
    """
    rates = [[0.5 * 0.9**head / 3**rank for rank in range(width)] for head in range(depth)]
    return best_first([[math.log(rate) for rate in row] for row in rates], count)


@dataclass(frozen=True, eq=False)
class RankPlan:
    """Trees [B] of given prefixes: `places` [B, N] of their tokens among the positions' most likely ones."""

    form: Topology
    places: Tensor
    shown_row: Tensor

    def nodes(self, tokens: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Each node's token [B, N], and which nodes are impossible, of each position's most likely tokens [B, K, width]
        and their probabilities."""
        impossible = values.flatten(1).gather(1, self.places) <= 0
        return tokens.flatten(1).gather(1, self.places), with_descendants(impossible, self.form)

    def tree(self, tokens: Tensor, never_accepted: Tensor, distributions: Tensor, name: str) -> DraftTree:
        """The trees, whose nodes come from the positions' `distributions` [B, K, V]."""
        batch, slots = self.shown_row.shape
        return DraftTree(
            topology=self.form,
            tokens=tokens,
            distributions=distributions,
            proposal_row=first_rows(0, slots, batch, tokens.device),
            shown_row=self.shown_row,
            never_accepted=never_accepted,
            origin=ByDepth(name, self.form.depth[:, 1:]),
        )


@lru_cache(maxsize=256)
def rank_plan(paths: tuple[tuple[Path, ...], ...], width: int, positions: int, device: torch.device) -> RankPlan:
    """Trees [B] of these prefixes, of equal numbers, by the `width` most likely tokens of each of `positions`."""
    place = [{path: node for node, path in enumerate(prefixes)} for prefixes in paths]
    parents = [[at.get(path[:-1], -1) for path in prefixes] for prefixes, at in zip(paths, place, strict=True)]
    places = [[(len(path) - 1) * width + path[-1] for path in prefixes] for prefixes in paths]
    shown_row = [[0, *(len(path) if len(path) < positions else -1 for path in prefixes)] for prefixes in paths]
    return RankPlan(
        topology(parents, device), torch.tensor(places, device=device), torch.tensor(shown_row, device=device)
    )
