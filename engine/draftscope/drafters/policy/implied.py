"""The implied acceptance of smaller drafts: what the result of one draft says about them.

A shorter chain of the same drafter is the beginning of a longer one, and a narrower tree consists of the first siblings
of a wider one: the same draws, verified with the same uniforms. So their result is known without running them. This
holds for smaller drafts only: a longer chain's result is known if the shorter one was rejected and unknown if it was
accepted, and an estimate from rejections alone would be too low.

Under token-wise verification, and in trees, the smaller draft accepts the part of the path that lies in it. Block
verification (2403.10444) accepts a prefix depending on the tokens after it, so a shorter block is verified again: its
thresholds are those of the longer one, except the last, h_g = p_g.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from draftscope.drafters.drafter import Outcome
from draftscope.drafters.options import TreeShape
from draftscope.verify.uniforms import Uniforms


def lies_in(small: TreeShape, large: TreeShape) -> bool:
    """Whether the full tree `small` is part of the full tree `large`, with the same root and first siblings."""
    return len(small) <= len(large) and all(a <= b for a, b in zip(small, large, strict=False))


def is_chain(shape: TreeShape) -> bool:
    return max(shape, default=1) == 1


def accepted(outcome: Outcome, uniforms: Uniforms, small: TreeShape) -> list[int]:
    """[B]: the number of tokens that the full tree `small`, part of the verified one, would have got accepted.

    `uniforms` are the round's. If the end of the text shortened the verified tree, it shortens the smaller one too.
    """
    block = outcome.verification.block if outcome.verification is not None else None
    if block is not None:
        return _block(block, uniforms, min(len(small), outcome.tree.nodes))
    return [_beginning(ranks, small) for ranks in _ranks(outcome)]


class SmallRounds:
    """The rounds in which the full tree `small` would have written what a larger tree of the same drafter wrote.

    A large draft passes in one round what a small one passes in several. Counted as one round each, easy passages would
    weigh too little and the small draft would look worse than it is. So the accepted path is replayed as if the small
    draft had been used. That is exact for greedy chains of a model, except after a draft that was accepted as a whole:
    the next token, which nobody drafted, counts as accepted.

    Under block verification each round counts once: a path that a long block had accepted would be accepted too easily
    when it is drafted again.
    """

    def __init__(self, small: TreeShape) -> None:
        self._small = small
        self._open: int | None = None  # tokens accepted so far in a round that has not ended

    def add(self, outcome: Outcome, uniforms: Uniforms) -> list[int]:
        """Accepted tokens of each small round that ends within this round of the large draft, for one sequence."""
        if outcome.verification is not None and outcome.verification.block is not None:
            return accepted(outcome, uniforms, self._small)
        (ranks,), height, small = _ranks(outcome), outcome.tree.topology.height, self._small
        lengths, begin, took = [], 0, self._open
        if took is None:
            lengths.append(accepted(outcome, uniforms, small)[0])
            begin, took = lengths[0] + 1, 0  # each round also writes a token of the target's own
        self._open = None
        while begin <= len(ranks):
            more = _beginning(ranks[begin:], small[took:])
            begin, took = begin + more, took + more
            if begin == len(ranks) == height > 0 and took < len(small):
                self._open = took + 1
                break
            lengths.append(took)
            begin, took = begin + 1, 0
        return lengths


def _ranks(outcome: Outcome) -> list[list[int]]:
    """[B]: of each node of the accepted path, how many siblings come before it."""
    parents = outcome.tree.topology.parents.tolist()
    return [[row[:node].count(row[node]) for node in path] for path, row in zip(outcome.paths, parents, strict=True)]


def _beginning(ranks: Sequence[int], small: TreeShape) -> int:
    """How many nodes of a path, from the root down, belong to the tree `small`."""
    for depth, rank in enumerate(ranks):
        if depth >= len(small) or rank >= small[depth]:
            return depth
    return len(ranks)


def _block(block: tuple[torch.Tensor, torch.Tensor], uniforms: Uniforms, length: int) -> list[int]:
    """Block verification of the first `length` tokens: weights p_0 .. p_G [B, G + 1], thresholds h_1 .. h_G [B, G]."""
    if length == 0:
        return [0] * len(block[0])
    weights, thresholds = block
    bounds = torch.cat([thresholds[:, : length - 1], weights[:, length : length + 1]], 1)
    passed = uniforms.accept[:, :length] < bounds
    steps = torch.arange(1, length + 1, device=bounds.device)
    lengths: list[int] = (passed * steps).amax(-1).tolist()
    return lengths
