"""DSpark (2607.05147): a block drafter whose tokens also depend on the token drafted before them.

The block's logits come from one forward, as DFlash's do. A low-rank table then adds to each token's logits a bias that
depends on the token before it, so tokens are drawn one after the other, at the cost of two small products each.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from draftscope.models.heads.block import Block, BlockConfig
from draftscope.models.heads.head import SharedWeights
from draftscope.models.native.linear import linear


@dataclass(frozen=True)
class DSparkConfig(BlockConfig):
    """`rank`: the width of the table."""

    rank: int = 256


class MarkovHead(nn.Module):
    """The table: a row of `rank` numbers for each of the target's tokens, and one for each token that is drafted.

    Modules have the published names. It adds nothing at first.
    """

    def __init__(self, read: int, drafted: int, rank: int) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(read, rank)
        self.markov_w2 = nn.Linear(rank, drafted, bias=False)
        nn.init.zeros_(self.markov_w2.weight)


class DSpark(Block):
    """Drafts up to `config.size` - 1 tokens."""

    def __init__(self, config: DSparkConfig, shared: SharedWeights) -> None:
        super().__init__(config, shared)
        self.markov_head = MarkovHead(shared.vocabulary, self.vocabulary, config.rank)

    def read(self, before: Tensor) -> Tensor:
        """Tokens [...] of the target's vocabulary -> [..., rank], for `bias`."""
        return self.markov_head.markov_w1(before)  # type: ignore[no-any-return]

    def bias(self, read: Tensor) -> Tensor:
        """[..., rank] -> [..., D]: what the token before adds to the logits."""
        return linear(read, self.markov_head.markov_w2.weight, exact=True)
