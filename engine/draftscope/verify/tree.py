"""Draft trees: the drafted tokens, their parents, and the distributions they were drawn from.

A *slot* is a place in the tree that can have children. Slot 0 is the root, the last committed token; slot i + 1 is
node i. Parents come before their children, and siblings are in draw order. A chain is a tree with one child a slot. The
empty tree (N = 0) is plain decoding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from draftscope.verify.copies import tensors_on
from draftscope.verify.sampling import Sampling

Counts = tuple[tuple[int, ...], ...]  # for each level, the number of children of each of its slots, root first


@dataclass(frozen=True, eq=False)
class Topology:
    """The shape of B trees of N nodes: everything that follows from `parents` alone.

    `width` is the largest number of siblings K, `height` the depth of the deepest node. Both are host integers, so
    loops over them do not wait for the device. `most` [N + 1] is the largest number of children each slot has in any of
    the B trees; None if that is not known on the host.
    """

    parents: Tensor  # [B, N] node index, -1 = the root
    children: Tensor  # [B, N + 1, K] node indices in draw order, -1 = none
    ancestors: Tensor  # [B, N + 1, N + 1] bool: does row attend to column, itself included?
    depth: Tensor  # [B, N + 1], 0 at the root
    width: int
    height: int
    is_chain: bool
    most: tuple[int, ...] | None

    @property
    def ranks(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """For each k < K: the slots [S] with more than k children in some tree, and their indices in entry k - 1."""
        return _ranks(self.most or (self.width,) * (self.nodes + 1), self.width, self.parents.device)

    @cached_property
    def slots(self) -> Tensor:
        """[B, N] the slot that each node is a child of."""
        return self.parents + 1

    @property
    def nodes(self) -> int:
        return self.parents.shape[1]

    @property
    def batch(self) -> int:
        return self.parents.shape[0]


@lru_cache(maxsize=256)
def _ranks(most: tuple[int, ...], width: int, device: torch.device) -> tuple[tuple[Tensor, Tensor], ...]:
    slots = [[slot for slot, count in enumerate(most) if count > rank] for rank in range(width)]
    pairs = zip([list(range(len(most))), *slots], slots, strict=False)
    among = [[previous.index(slot) for slot in current] for previous, current in pairs]
    tensors = [[torch.tensor(indices, device=device) for indices in lists] for lists in (slots, among)]
    return tuple(zip(*tensors, strict=True))


def topology(parents: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> Topology:
    """The topology of B trees from parent lists of equal length N. ValueError if a parent comes after its child."""
    batch, count = len(parents), len(parents[0])
    nodes = np.arange(count)
    for row in parents:
        if len(row) != count or any(not -1 <= parent < node for node, parent in enumerate(row)):
            raise ValueError(f"parents {list(row)}: each must be -1 or an earlier node, {count} of them")
    above = np.array(parents, dtype=np.int64).reshape(batch, count)
    trees = np.arange(batch)
    siblings = np.zeros((batch, count + 1), dtype=np.int64)  # how many children each slot has so far
    rank = np.empty((batch, count), dtype=np.int64)  # how many earlier siblings each node has
    ancestors = np.zeros((batch, count + 1, count + 1), dtype=np.bool_)
    ancestors[:, 0, 0] = True
    for node in range(count):  # the same node of all trees at once
        slot = above[:, node] + 1
        rank[:, node] = siblings[trees, slot]
        siblings[trees, slot] += 1
        ancestors[:, node + 1] = ancestors[trees, slot]
        ancestors[:, node + 1, node + 1] = True
    width = int(siblings.max())
    children = np.full((batch, count + 1, max(width, 1)), -1, dtype=np.int64)
    children[trees[:, None], above + 1, rank] = nodes
    depth = ancestors.sum(-1) - 1
    there = tensors_on(device, above, children, depth, ancestors)
    return Topology(
        parents=there[0],
        children=there[1],
        ancestors=there[3],
        depth=there[2],
        width=width,
        height=int(depth.max()),
        is_chain=bool((above == nodes - 1).all()),
        most=tuple(siblings.max(0).tolist()),
    )


def grown(parents: Tensor, width: int, height: int) -> Topology:
    """The topology of trees built on the device, without waiting for it: parents [B, N], each -1 or an earlier node.

    `width` and `height` are upper bounds of the number of siblings and the depth.
    """
    batch, count = parents.shape
    device = parents.device
    above = torch.nn.functional.pad(parents + 1, (1, 0))  # [B, N + 1]: the parent slot of each slot; 0 for the root
    ancestors = torch.zeros((batch, count + 1, count + 1), dtype=torch.bool, device=device)
    slot = torch.arange(count + 1, device=device).expand(batch, -1)
    for _ in range(height + 1):
        ancestors.scatter_(2, slot[:, :, None], True)
        slot = above.gather(1, slot)
    same = parents[:, :, None] == parents[:, None, :]
    rank = same.tril(-1).sum(-1)  # [B, N]: how many earlier siblings each node has
    children = torch.full((batch, (count + 1) * width), -1, dtype=torch.long, device=device)
    nodes = torch.arange(count, device=device).expand(batch, -1)
    children.scatter_(1, (parents + 1) * width + rank, nodes)
    return Topology(
        parents=parents,
        children=children.view(batch, count + 1, width),
        ancestors=ancestors,
        depth=ancestors.sum(-1) - 1,
        width=width,
        height=height,
        is_chain=False,
        most=None,
    )


def with_descendants(marked: Tensor, topology: Topology) -> Tensor:
    """marked [B, N] bool -> [B, N]: the marked nodes and all their descendants."""
    slots = torch.nn.functional.pad(marked, (1, 0))
    return (topology.ancestors & slots[:, None, :]).any(-1)[:, 1:]


@lru_cache(maxsize=256)
def chain(length: int, batch: int = 1, device: torch.device | str = "cpu") -> Topology:
    """B chains of `length` nodes; length 0 is the empty tree."""
    return topology([list(range(-1, length - 1))] * batch, device)


@lru_cache(maxsize=256)
def by_levels(counts: Counts, batch: int = 1, device: torch.device | str = "cpu") -> Topology:
    """B equal trees with their nodes in breadth-first order."""
    parents: list[int] = []
    level = [-1]
    for counts_of_level in counts:
        start = len(parents)
        parents += [slot for slot, children in zip(level, counts_of_level, strict=True) for _ in range(children)]
        level = list(range(start, len(parents)))
    return topology([parents] * batch, device)


def even(shape: Sequence[int]) -> Counts:
    """The full tree: every slot of level d has `shape[d]` children."""
    slots = [math.prod(shape[:level]) for level in range(len(shape))]
    return tuple((branches,) * count for branches, count in zip(shape, slots, strict=True))


def full(shape: Sequence[int], batch: int = 1, device: torch.device | str = "cpu") -> Topology:
    """B full trees: every slot of level d has `shape[d]` children."""
    return by_levels(even(shape), batch, device)


@lru_cache(maxsize=256)
def first_rows(count: int, slots: int, batch: int, device: torch.device) -> Tensor:
    """[B, slots]: row s for each of the first `count` slots, -1 for the others; for `proposal_row` and `shown_row`."""
    rows = torch.arange(slots, device=device)
    return torch.where(rows < count, rows, -1).repeat(batch, 1)


@lru_cache(maxsize=256)
def padding(lengths: tuple[int, ...], nodes: int, device: torch.device) -> Tensor:
    """[B, nodes] bool: the nodes of chains beyond their lengths, for `never_accepted`."""
    return torch.arange(nodes, device=device) >= torch.tensor(lengths, device=device)[:, None]


@dataclass(frozen=True)
class DraftTree:
    """B draft trees. A slot's children were either drawn from a draft distribution or are deterministic.

    **A drawn child must never be dropped after its token was seen.** A drafter that selects among drawn tokens must
    declare the result deterministic. Never-accepted nodes are computed but cannot be accepted (padding, Jacobi rows).

    `tokens` [B, N] int64. `distributions` [B, R, V] fp32 are the draft's, or None; `proposal_row` [B, N + 1] int64 says
    which of them a slot's children were drawn from (-1: deterministic), `shown_row` [B, N + 1] which to show at a slot
    (-1: none). `never_accepted` [B, N] bool. `origin` [B][N] is a short text that says how each node was drafted.
    `drawn`: which slots have drawn children, among those with children. `forward_ms`: of each draft forward, if
    measured. `sampled_chain`, `sampled_tree` and `deterministic_chains` make all of it.
    """

    topology: Topology
    tokens: Tensor
    distributions: Tensor | None
    proposal_row: Tensor
    shown_row: Tensor
    never_accepted: Tensor
    origin: Sequence[Sequence[str]]
    drawn: Literal["none", "some", "all"] = "none"
    forward_ms: tuple[float, ...] = ()

    @property
    def nodes(self) -> int:
        """N, of each of the B trees."""
        return self.topology.nodes


class ByDepth(Sequence[Sequence[str]]):
    """The origins of nodes that are drafted by depth; read from the device only when a trace asks for them."""

    def __init__(self, step: str, depth: Tensor) -> None:
        """depth [B, N]."""
        self._step, self._depth = step, depth

    def __len__(self) -> int:
        return len(self._depth)

    def __getitem__(self, row: Any) -> Any:
        return tuple(f"{self._step} {depth}" for depth in self._depth[row].tolist())


@lru_cache(maxsize=64)
def empty(batch: int, device: torch.device | str = "cpu") -> DraftTree:
    """The empty tree: plain decoding."""
    return deterministic_chains([[]] * batch, [""] * batch, device)


def deterministic_chains(
    drafts: Sequence[Sequence[int]], origin: Sequence[str], device: torch.device | str
) -> DraftTree:
    """One deterministic chain for each sequence: `drafts` [B][N] token ids, [] for none, padded with never-accepted
    nodes. `origin` [B] says in a trace where each is from. Raises ValueError for drafts that are no lists.

    The target draws its own token, which accepts the node that carries it.
    """
    if not all(isinstance(draft, Sized) for draft in drafts) or len(drafts) != len(origin):
        raise ValueError(f"drafts = {drafts}, origin = {origin}; give a list of token ids and a text for each sequence")
    longest = max(len(draft) for draft in drafts)
    padded = [[*draft, *[0] * (longest - len(draft))] for draft in drafts]
    device = torch.device(device)
    no_row = first_rows(0, longest + 1, len(drafts), device)
    return DraftTree(
        topology=chain(longest, len(drafts), device),
        tokens=torch.tensor(padded, dtype=torch.long, device=device).view(len(drafts), longest),
        distributions=None,
        proposal_row=no_row,
        shown_row=no_row,
        never_accepted=padding(tuple(map(len, drafts)), longest, device),
        origin=tuple((name,) * longest for name in origin),
    )


def sampled_chain(
    tokens: Sequence[Tensor], distributions: Sequence[Tensor], sampling: Sampling, origin: str = "drawn"
) -> DraftTree:
    """B chains of N drawn tokens: `tokens` is N tensors [B], `distributions` N tensors [B, V], fp32, each summing to 1.

    Token i must have been drawn from `distributions[i]` as `sampling.draw` does, after `sampling.distribution`, which
    applies temperature, top-k, top-p and min-p as the target's are. In greedy runs the same tokens are proposed without
    chance. `origin` says in a trace how they were drafted. Raises ValueError for other shapes or unequal numbers.

    Verified by block verification (Sun et al. 2403.10444) or token by token (Leviathan et al. 2211.17192).
    """
    if len(tokens) != len(distributions) or not tokens:
        raise ValueError(f"{len(tokens)} tokens and {len(distributions)} distributions; give one of each, at least one")
    for name, tensors, shape in (("tokens", tokens, "[B]"), ("distributions", distributions, "[B, V]")):
        for place, tensor in enumerate(tensors):
            if not isinstance(tensor, Tensor) or tensor.dim() != shape.count(",") + 1:
                given = f"the shape {list(tensor.shape)}" if isinstance(tensor, Tensor) else repr(tensor)
                raise ValueError(f"{name}[{place}] has {given}; give a tensor {shape}")
    parents = list(range(-1, len(tokens) - 1))
    return sampled_tree(parents, torch.stack(list(tokens), 1), torch.stack(list(distributions), 1), sampling, origin)


def sampled_tree(
    parents: Sequence[int], tokens: Tensor, distributions: Tensor, sampling: Sampling, origin: str = "drawn"
) -> DraftTree:
    """B trees of one shape. `parents` [N] are earlier nodes or -1, the root; `tokens` [B, N]; `distributions` [B, S, V]
    in fp32, row s being that of slot s: 0 is the root's, i + 1 node i's. Slots from S on have no children.

    The children of a slot must have been drawn from its row without replacement, in the order of their nodes, as
    `sampling.draw_distinct` does after `sampling.distribution`. Children beyond the number of tokens that a row can
    give (top-k, top-p) are never accepted, nor is what lies below them. In greedy runs the same tokens are proposed
    without chance. Raises ValueError for a parent that comes after its child or has no row.

    Verified by recursive rejection sampling (Jeon et al. 2402.12374).
    """
    batch, slots = len(tokens), len(parents) + 1
    form = topology([list(parents)] * batch, tokens.device)
    if without := [parent for parent in parents if parent + 1 >= distributions.shape[1]]:
        raise ValueError(f"parents has {without[0]}, and distributions only {distributions.shape[1]} rows; add its row")
    never = torch.zeros(tokens.shape, dtype=torch.bool, device=tokens.device)
    ranks = [parents[:node].count(parent) for node, parent in enumerate(parents)]
    if any(ranks):
        possible = (distributions > 0).sum(-1)[:, [parent + 1 for parent in parents]]
        never = with_descendants(possible <= torch.tensor(ranks, device=tokens.device), form)
    rows = first_rows(min(distributions.shape[1], slots), slots, batch, tokens.device)
    return DraftTree(
        topology=form,
        tokens=tokens,
        distributions=distributions,
        proposal_row=first_rows(0, slots, batch, tokens.device) if sampling.greedy else rows,
        shown_row=rows,
        never_accepted=never,
        origin=((origin,) * len(parents),) * batch,
        drawn="none" if sampling.greedy else "all",
    )
