"""Trees of deterministic tokens, given node by node: what drafters without a distribution propose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from draftscope.verify.tree import DraftTree, chain, topology


class TrieNode(NamedTuple):
    """A token after an earlier node of its tree; parent -1 is the root. A never-accepted node is computed by the target
    but cannot be accepted."""

    parent: int
    token: int
    origin: str
    never_accepted: bool = False


def deterministic_trees(drafts: Sequence[Sequence[TrieNode]], device: torch.device) -> DraftTree:
    """One tree for each sequence; smaller trees are padded with never-accepted nodes, and chains stay chains.

    Siblings must carry different tokens: the later of two equal ones could never be reached.
    """
    most, batch = max(len(draft) for draft in drafts), len(drafts)
    chains = all(node.parent == i - 1 for draft in drafts for i, node in enumerate(draft))
    padding = [TrieNode(i - 1 if chains else -1, 0, "padding", never_accepted=True) for i in range(most)]
    rows = [[*draft, *padding[len(draft) :]] for draft in drafts]
    none = torch.full((batch, most + 1), -1, dtype=torch.long, device=device)
    parents = [[node.parent for node in row] for row in rows]
    return DraftTree(
        topology=chain(most, batch, device) if chains else topology(parents, device),
        tokens=torch.tensor([[n.token for n in row] for row in rows], dtype=torch.long, device=device).view(
            batch, most
        ),
        distributions=None,
        proposal_row=none,
        belief=none,
        never_accepted=torch.tensor(
            [[n.never_accepted for n in row] for row in rows], dtype=torch.bool, device=device
        ).view(batch, most),
        origin=tuple(tuple(node.origin for node in row) for row in rows),
    )
