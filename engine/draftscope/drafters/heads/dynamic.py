"""EAGLE-2's dynamic tree (2406.16858) over any recurrent head: it grows at its most probable nodes.

Expand: at each depth the `tree_width` most probable nodes (by the product of probabilities from the root) get
`tree_width` children each. Rerank: the `tree_nodes` most probable of all nodes are proposed. Selecting drawn children
by probability would bias them, so nothing is drawn: children are deterministic, and verified as such. (The paper uses
60 nodes, depth 7, width 10; so many rows are nearly free on a large GPU, but not on a small CPU.)
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import torch
from torch import Tensor

from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.heads.recurrent import EAGLE, EAGLE3, MTP, HeadRows, recurrent_head
from draftscope.drafters.options import ChainOptions, GrownTreeOptions
from draftscope.models.forward.graphs import Outputs
from draftscope.models.heads import RecurrentHead
from draftscope.verify.tree import ByDepth, DraftTree, Topology, empty, first_rows, grown

IMPOSSIBLE = -1e3  # log probability of a token that cannot occur


class DynamicTree(Drafter):
    """A tree for each sequence; all trees of a batch have the same number of nodes."""

    def __init__(self, parts: Parts[GrownTreeOptions], head: RecurrentHead, name: str) -> None:
        self.layers = head.layers
        self._name = name
        self._rows = HeadRows(head, parts)
        self._width, self._depth = min(parts.options.tree_width, parts.vocabulary), parts.options.tree_depth
        self._nodes = parts.options.tree_nodes
        self._device = parts.device

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        assert features is not None
        self._rows.begin(prompts, features)

    def propose(self, state: State, depth: int) -> DraftTree:
        if depth == 0:
            return empty(len(state.texts), self._device)
        times: list[float] = []
        began = perf_counter()
        size = self._width, self._depth, self._nodes
        fed = self._width * (self._depth - 1)

        def grow(distribution: Tensor, features: Tensor) -> Outputs:
            return self._grown(distribution, features, [], 0.0)

        parts = self._rows.as_one_graph(state.texts, size, (), fed, grow)
        parts = parts or self._grown(*self._rows.first(state.texts), times, began)
        tokens, distributions, shown_row, never_accepted, parents, children, ancestors, depths = parts
        shape = Topology(parents, children, ancestors, depths, self._width, self._depth, is_chain=False, most=None)
        return DraftTree(
            topology=shape,
            tokens=tokens,
            distributions=distributions,
            proposal_row=first_rows(0, shape.nodes + 1, shape.batch, self._device),
            shown_row=shown_row,
            never_accepted=never_accepted,
            origin=ByDepth(f"{self._name} step", depths[:, 1:]),
            forward_ms=tuple(times),
        )

    def _grown(self, distribution: Tensor, features: Tensor, times: list[float], began: float) -> Outputs:
        """The tensors of a tree, grown from the first `distribution` [B, 1, V]; `times` gets each level's time."""
        growth = _Growth(distribution, self._width)
        for level in range(1, self._depth):
            times.append((perf_counter() - began) * 1e3)
            began = perf_counter()
            tokens, features, sees = growth.frontier(features)
            offsets = torch.full_like(tokens, level - 1)
            distribution, features = self._rows.below(tokens, features, offsets, sees)
            growth.expand(distribution)
        tree = growth.best(self._nodes)
        times.append((perf_counter() - began) * 1e3)
        return tree

    def observe(self, outcome: Outcome) -> None:
        self._rows.observe(outcome)

    def select_rows(self, rows: list[int]) -> bool:
        return self._rows.select_rows(rows)


class _Growth:
    """The candidates so far, level by level: a level's nodes are the children of the previous frontier, in order."""

    def __init__(self, distribution: Tensor, width: int) -> None:
        self._width = width
        batch = distribution.shape[0]
        root = torch.zeros((batch, 1), device=distribution.device)
        self._distributions: list[Tensor] = []
        self._tokens: list[Tensor] = []  # [B, n] of each level
        self._values: list[Tensor] = []  # log of the product of probabilities from the root
        self._parents: list[Tensor] = []
        self._owner: list[Tensor] = []  # [B, n]: the distribution row of a node's children, -1 = none yet
        self._sees = torch.zeros((batch, 0, 0), dtype=torch.bool, device=distribution.device)  # among drafted rows
        self._grow(distribution, root, torch.full_like(root, -1, dtype=torch.long))

    def frontier(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The last level's most probable nodes: tokens [B, k], their parents' features, and the rows that each sees.

        `features` [B, r, h] are those of the previous frontier.
        """
        values = self._values[-1]
        chosen = values.topk(min(self._width, values.shape[1])).indices
        above = chosen // self._width  # the row of the previous frontier that is the node's parent
        first = sum(level.shape[1] for level in self._tokens[:-1])
        distributions = sum(distribution.shape[1] for distribution in self._distributions)
        rows = torch.arange(distributions, distributions + chosen.shape[1], device=values.device).expand(
            len(chosen), -1
        )
        self._owner[-1].scatter_(1, chosen, rows)
        self._frontier = values.gather(1, chosen), chosen + first
        self._sees = self._seen(above)
        parents = features.gather(1, above[:, :, None].expand(-1, -1, features.shape[2]))
        return self._tokens[-1].gather(1, chosen), parents, self._sees[:, -chosen.shape[1] :]

    def expand(self, distribution: Tensor) -> None:
        """Adds the children of the frontier, from its distributions [B, k, V]."""
        self._grow(distribution, *self._frontier)

    def best(self, count: int) -> Outputs:
        """The `count` most probable nodes. A child is never more probable than its parent, so they form a tree: tokens,
        distributions, the row of each slot's distribution, which nodes are impossible, and its topology's tensors."""
        values, tokens, parents = (torch.cat(levels, 1) for levels in (self._values, self._tokens, self._parents))
        order = torch.arange(values.shape[1], device=values.device)
        key = values.double() - 1e-9 * order  # of equal nodes the earlier one, so a parent before its child
        chosen = key.topk(min(count, values.shape[1])).indices.sort().values
        place = torch.full_like(tokens, -1).scatter_(1, chosen, order[: chosen.shape[1]].expand_as(chosen))
        above = parents.gather(1, chosen)
        above = torch.where(above < 0, -1, place.gather(1, above.clamp(min=0)))
        form = grown(above, self._width, len(self._tokens))
        shown_row = torch.nn.functional.pad(torch.cat(self._owner, 1).gather(1, chosen), (1, 0), value=0)
        shape = form.parents, form.children, form.ancestors, form.depth
        impossible = values.gather(1, chosen) <= IMPOSSIBLE
        return tokens.gather(1, chosen), torch.cat(self._distributions, 1), shown_row, impossible, *shape

    def _grow(self, distribution: Tensor, values: Tensor, nodes: Tensor) -> None:
        top = distribution.topk(self._width, -1)
        self._distributions.append(distribution)
        self._tokens.append(top.indices.flatten(1))
        self._values.append((values[:, :, None] + top.values.log().clamp(min=IMPOSSIBLE)).flatten(1))
        self._parents.append(nodes.repeat_interleave(self._width, 1))
        self._owner.append(torch.full_like(self._tokens[-1], -1))

    def _seen(self, above: Tensor) -> Tensor:
        """[B, F + k, F + k]: each new row sees the rows that its parent sees, and itself."""
        batch, rows = above.shape
        before = self._sees.shape[1]
        whole = torch.eye(before + rows, dtype=torch.bool, device=above.device).repeat(batch, 1, 1)
        whole[:, :before, :before] = self._sees
        if before:
            last = self._sees[:, -self._width :]  # the previous frontier
            whole[:, before:, :before] = last.gather(1, above[:, :, None].expand(-1, -1, before))
        return whole


def _tree(chain: DrafterInfo[ChainOptions]) -> DrafterInfo[GrownTreeOptions]:
    def create(parts: Parts[GrownTreeOptions]) -> Drafter:
        return DynamicTree(parts, recurrent_head(parts, chain.needs_head), chain.name)

    return DrafterInfo(
        name=f"{chain.name}-tree",
        title=chain.title.replace("chain", "dynamic tree"),
        paper=f"{chain.paper}; the tree: EAGLE-2, Li et al. 2406.16858",
        create=create,
        options=GrownTreeOptions,
        head=chain.head,
        grows_trees=True,
    )


EAGLE_TREE, EAGLE3_TREE, MTP_TREE = _tree(EAGLE), _tree(EAGLE3), _tree(MTP)
