"""The topology of draft trees: the fast one, level with all trees at once, is the one that can be read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from draftscope.verify.tree import Topology, topology


def readable(parents: Sequence[Sequence[int]]) -> Topology:
    """Slot by slot: its children are the nodes that name it, its ancestors its parent's and itself."""
    batch, count = len(parents), len(parents[0])
    below = [
        [[node for node, parent in enumerate(row) if parent == slot - 1] for slot in range(count + 1)]
        for row in parents
    ]
    width = max(len(children) for row in below for children in row)
    table = torch.full((batch, count + 1, max(width, 1)), -1, dtype=torch.long)
    ancestors = torch.eye(count + 1, dtype=torch.bool).repeat(batch, 1, 1)
    for b, row in enumerate(parents):
        for slot, children in enumerate(below[b]):
            table[b, slot, : len(children)] = torch.tensor(children, dtype=torch.long)
        for node, parent in enumerate(row):
            ancestors[b, node + 1] |= ancestors[b, parent + 1]
    depth = ancestors.sum(-1) - 1
    return Topology(
        parents=torch.tensor([list(row) for row in parents], dtype=torch.long).reshape(batch, count),
        children=table,
        ancestors=ancestors,
        depth=depth,
        width=width,
        height=int(depth.max()),
        is_chain=all(parent == node - 1 for row in parents for node, parent in enumerate(row)),
        most=tuple(max(map(len, children)) for children in zip(*below, strict=True)),
    )


@st.composite
def trees(draw: st.DrawFn) -> list[list[int]]:
    """Parent lists of some trees of as many nodes each, none included."""
    batch, count = draw(st.integers(1, 4)), draw(st.integers(0, 9))
    return [[draw(st.integers(-1, node - 1)) for node in range(count)] for _ in range(batch)]


@given(trees())
def test_the_fast_topology_is_the_readable_one(parents: list[list[int]]) -> None:
    found, wanted = vars(topology(parents)), vars(readable(parents))
    for name, value in wanted.items():
        same = value.equal(found[name]) if isinstance(value, torch.Tensor) else value == found[name]
        assert same and type(value) is type(found[name]), (name, found[name])


@pytest.mark.parametrize("parents", [[[0]], [[-2]], [[-1, 1]], [[-1, 0], [-1]], [[-1], [-1, 0]]])
def test_a_parent_behind_its_child_is_refused(parents: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="each must be -1 or an earlier node"):
        topology(parents)
