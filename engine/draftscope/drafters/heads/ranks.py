"""Trees over independent positions, whose distributions do not depend on the tokens drafted before: a node is the
ranks of its tokens, position by position.

The prefixes in the tree are either the same every round, chosen by rank (Medusa's sparse tree, 2401.10774), or the most
probable ones under each round's distributions (DDTree, 2604.12989). Children are deterministic.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from draftscope.verify.tree import DraftTree, topology, with_descendants

Path = tuple[int, ...]  # the rank of each token of a prefix in its own position's distribution


def best_first(log_distributions: Sequence[Sequence[float]], count: int) -> list[Path]:
    """The `count` most probable prefixes of independent positions, parents first (2604.12989, a heap).

    log_distributions[k]: the log probabilities of position k's tokens, largest first.
    """
    heap: list[tuple[float, Path]] = [(-log_distributions[0][0], (0,))]
    found: list[Path] = []
    while heap and len(found) < count:
        cost, path = heapq.heappop(heap)
        found.append(path)
        position, rank = len(path) - 1, path[-1]
        if rank + 1 < len(log_distributions[position]):  # the next sibling
            sibling = cost + log_distributions[position][rank] - log_distributions[position][rank + 1]
            heapq.heappush(heap, (sibling, (*path[:-1], rank + 1)))
        if position + 1 < len(log_distributions):  # the first child
            heapq.heappush(heap, (cost - log_distributions[position + 1][0], (*path, 0)))
    return found


@lru_cache(maxsize=64)
def sparse_tree(depth: int, width: int, count: int) -> list[Path]:
    """Medusa's sparse tree (2401.10774, section 2.3.3): the prefixes most likely to be accepted, by rank only.

    The paper measures how often each head's r-th guess is right. Without a measurement, the first guess is assumed to
    be right half of the time, a little less at each further head, and each next guess a third as often as the one
    before.
    """
    rates = [[0.5 * 0.9**head / 3**rank for rank in range(width)] for head in range(depth)]
    return best_first([[math.log(rate) for rate in row] for row in rates], count)


def tree_of_ranks(
    paths: list[list[Path]], tokens: Tensor, values: Tensor, distributions: Tensor, name: str
) -> DraftTree:
    """Trees [B] of the given prefixes; tokens and values [B, K, width] are each position's most likely ones."""
    longest = max(len(own) for own in paths)
    assert all(len(own) == longest for own in paths)
    place = [{path: node for node, path in enumerate(own)} for own in paths]
    parents = [[at.get(path[:-1], -1) for path in own] for own, at in zip(paths, place, strict=True)]
    depth_and_rank = [[[len(path) - 1 for path in own] for own in paths], [[path[-1] for path in own] for own in paths]]
    depth, rank = torch.tensor(depth_and_rank, device=tokens.device)  # one copy to the device
    flat = depth * tokens.shape[2] + rank
    belief = torch.nn.functional.pad(depth + 1, (1, 0))
    form = _topology(tuple(map(tuple, parents)), tokens.device)
    return DraftTree(
        topology=form,
        tokens=tokens.flatten(1).gather(1, flat),
        distributions=distributions,
        proposal_row=torch.full_like(belief, -1),
        belief=torch.where(belief < distributions.shape[1], belief, -1),
        never_accepted=with_descendants(values.flatten(1).gather(1, flat) <= 0, form),
        origin=tuple(tuple(f"{name} {len(path)}" for path in own) for own in paths),
    )


_topology = lru_cache(maxsize=256)(topology)
