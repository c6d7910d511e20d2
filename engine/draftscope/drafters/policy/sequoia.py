"""Sequoia (2402.12374): the tree with the most expected tokens for its cost, by dynamic programming.

Given how often the child of each rank is the accepted one (`rates`), a tree is expected to emit one token of the
target's own and, for every node, the product of the rates on its path. The best tree of n nodes and depth d is found
exactly; then the n and d with the most tokens for their time. If no tree is faster than plain, nothing is drafted.

The shape is fixed before anything is drawn, so siblings can be drawn without replacement, as in the paper. Rates are
measured at the run's temperature (`rank_acceptance.py`). Costs are the calibrated ones of a chain; that a level of many
nodes costs the draft more than a single node is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from draftscope.drafters.drafter import DrafterInfo
from draftscope.drafters.heads.recurrent import RecurrentLevels, recurrent_head
from draftscope.drafters.model.draft_model import DraftModel
from draftscope.drafters.options import TreeSizeOptions
from draftscope.models import head_kinds
from draftscope.verify.tree import Counts


def best_shape(rates: Sequence[float], nodes: int, depth: int) -> tuple[float, Counts]:
    """Expected tokens per round of the best tree with exactly `nodes` nodes and at most `depth` levels, and its shape.

    rates[r]: how often the child of rank r is accepted after an accepted parent; no node has more children than rates.
    """
    rates = tuple(rates)
    value, _ = _worth(rates, nodes, depth, 0)
    counts, level = [], [nodes]
    for below in range(depth, 0, -1):
        if not any(level):
            break
        children = [_worth(rates, size, below, 0)[1] for size in level]
        counts.append(tuple(len(sizes) for sizes in children))
        level = [size - 1 for sizes in children for size in sizes]
    return 1 + value, tuple(counts)


def best_tree(rates: Sequence[float], nodes: int, depth: int, cost: Callable[[int, int], float]) -> Counts:
    """The shape with the most tokens for its time. `cost(nodes, levels)` has any unit; cost(0, 0) is a plain round."""
    best = 1 / cost(0, 0)
    shape: Counts = ()
    for levels in range(1, depth + 1):
        for count in range(levels, nodes + 1):
            tokens, counts = best_shape(rates, count, levels)
            if len(counts) == levels and tokens / cost(count, levels) > best:
                best, shape = tokens / cost(count, levels), counts
    return shape


@lru_cache(maxsize=1 << 18)
def _worth(rates: tuple[float, ...], count: int, levels: int, rank: int) -> tuple[float, tuple[int, ...]]:
    """`count` nodes under one slot, in children of `rank` and later: expected tokens, and the nodes in each child."""
    if count == 0:
        return 0.0, ()
    if levels == 0 or rank == len(rates):
        return float("-inf"), ()
    options = []
    for size in range(1, count + 1):
        child, rest = _worth(rates, size - 1, levels - 1, 0), _worth(rates, count - size, levels, rank + 1)
        options.append((rates[rank] * (1 + child[0]) + rest[0], (size, *rest[1])))
    return max(options)


DRAFT = DrafterInfo(
    name="sequoia",
    title="Draft model, Sequoia's tree",
    paper="Chen et al. 2402.12374: the tree by dynamic programming, siblings drawn without replacement",
    create=lambda parts: DraftModel(parts, parts.counts(), sampled=True),
    options=TreeSizeOptions,
    needs_draft=True,
    grows_trees=True,
    chooses_tree=True,
)
EAGLE3 = replace(
    DRAFT,
    name="eagle3-sequoia",
    title="EAGLE-3 head, Sequoia's tree",
    paper=f"Li et al. 2503.01840; the tree: {DRAFT.paper}",
    create=lambda parts: RecurrentLevels(parts, recurrent_head(parts, "eagle3"), parts.counts()),
    needs_draft=False,
    head=head_kinds.EAGLE3,
)
