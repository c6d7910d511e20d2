"""What the result on one draft tells of smaller ones: full information, where a result allows it.

A shorter chain of the same drafter is the beginning of a longer one, a narrower tree the first siblings of a wider: the
same draws, verified by the same uniforms, so their outcome is known without playing them. Only of smaller drafts: a
longer one is known where the chain fell short and unknown where it stood, and an estimate fed by failures alone is too
low.

Token-wise, and in trees, the smaller draft accepts the beginning of the path that lies in it. Block verification
(2403.10444) accepts a prefix by what stands behind it, so a shorter block is verified anew: its thresholds are those of
the longer one, but for its last, h_g = p_g.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from draftscope.drafters.drafter import Outcome
from draftscope.drafters.options import TreeShape
from draftscope.verify.uniforms import Uniforms


def lies_in(small: TreeShape, large: TreeShape) -> bool:
    """Is the full tree `small` part of the full tree `large`, root for root and sibling for sibling?"""
    return len(small) <= len(large) and all(a <= b for a, b in zip(small, large, strict=False))


def is_chain(shape: TreeShape) -> bool:
    return max(shape, default=1) == 1


def accepted(outcome: Outcome, uniforms: Uniforms, small: TreeShape) -> list[int]:
    """[B]: how many tokens of the full tree `small`, part of the one that was verified, would have been accepted.

    `uniforms` are the round's. A tree cut short at the end of a text cuts the smaller one as well.
    """
    block = outcome.verification.block if outcome.verification is not None else None
    if block is not None:
        return _block(block, uniforms, min(len(small), outcome.tree.nodes))
    parents = outcome.tree.topology.parents.tolist()
    return [_beginning(path, own, small) for path, own in zip(outcome.paths, parents, strict=True)]


def _beginning(path: Sequence[int], parents: Sequence[int], small: TreeShape) -> int:
    """The nodes of `path` from the root down that stand among the first siblings."""
    for depth, node in enumerate(path):
        rank = sum(parent == parents[node] for parent in parents[:node])
        if depth >= len(small) or rank >= small[depth]:
            return depth
    return len(path)


def _block(block: tuple[torch.Tensor, torch.Tensor], uniforms: Uniforms, length: int) -> list[int]:
    """Block verification of the first `length` tokens: weights p_0 .. p_G [B, G + 1], thresholds h_1 .. h_G [B, G]."""
    if length == 0:
        return [0] * len(block[0])
    weights, thresholds = block
    bounds = torch.cat([thresholds[:, : length - 1], weights[:, length : length + 1]], 1)
    passed = uniforms.accept[:, :length] < bounds
    steps = torch.arange(1, length + 1, device=bounds.device)
    found: list[int] = (passed * steps).amax(-1).tolist()
    return found
