"""Trees of deterministic tokens, given node by node: what drafters without a distribution propose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from draftscope.verify.copies import tensors_on
from draftscope.verify.tree import DraftTree, chain, first_rows, topology


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
    none = first_rows(0, most + 1, batch, device)
    parents = [[node.parent for node in row] for row in rows]
    tokens = np.array([[node.token for node in row] for row in rows], dtype=np.int64).reshape(batch, most)
    never = np.array([[node.never_accepted for node in row] for row in rows], dtype=np.bool_).reshape(batch, most)
    there = tensors_on(device, tokens, never)
    return DraftTree(
        topology=chain(most, batch, device) if chains else topology(parents, device),
        tokens=there[0],
        distributions=None,
        proposal_row=none,
        shown_row=none,
        never_accepted=there[1],
        origin=tuple(tuple(node.origin for node in row) for row in rows),
    )
