"""What each kind of head computes: its network, its published files, its weights before training, and its lesson."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from draftscope.models.head_kinds import HeadNetwork
from draftscope.models.heads.block import (
    Block,
    BlockConfig,
    DSpark,
    DSparkConfig,
    read_block,
    read_dspark,
    write_block,
    write_dspark,
)
from draftscope.models.heads.eagle import (
    Eagle1,
    Eagle1Config,
    Eagle3,
    Eagle3Config,
    default_layers,
    read_eagle1,
    read_eagle3,
    write_eagle1,
    write_eagle3,
)
from draftscope.models.heads.eagle3_files import CHECKS
from draftscope.models.heads.head import Head, OwnWeights, SharedWeights
from draftscope.models.heads.layer import HeadShape
from draftscope.models.heads.lessons import Blocks, Eagle1Lesson, MarkovBlocks, ParallelHeads, Unrolled
from draftscope.models.heads.medusa import Medusa, MedusaConfig, read_medusa, write_medusa
from draftscope.models.heads.mtp import Mtp, MtpConfig, read_mtp, write_mtp

MEDUSA_HEADS = 4
BLOCK_SIZE, DSPARK_SIZE = 9, 7  # tokens in a block, including the given first one
DSPARK_RANK = 64
MASK_TOKEN = 1


def decaying(depth: int, factor: float) -> tuple[float, ...]:
    """The weight of each depth, decreasing: a token is only useful if all tokens before it were accepted."""
    return tuple(factor**k for k in range(depth))


def _first_eagle3(shape: HeadShape, shared: SharedWeights, tokens: Tensor) -> Head:
    """Each hidden state is normalised before it is fused (EAGLE 3.1): the target's grow to a hundred times its
    embeddings, and training would be far slower without."""
    weights = OwnWeights(lm_head=True, vocabulary=len(tokens))
    return _select(Eagle3(Eagle3Config(shape, default_layers(shared.layers), weights, fc_norm=True), shared), tokens)


def _first_block(shape: HeadShape, shared: SharedWeights, tokens: Tensor) -> Head:  # noqa: ARG001 - drafts all tokens
    config = BlockConfig(replace(shape, qk_norm=True), 1, BLOCK_SIZE, MASK_TOKEN, default_layers(shared.layers))
    return Block(config, shared)


def _first_dspark(shape: HeadShape, shared: SharedWeights, tokens: Tensor) -> Head:
    weights, layers = OwnWeights(lm_head=True, vocabulary=len(tokens)), default_layers(shared.layers)
    shape = replace(shape, qk_norm=True)
    return _select(
        DSpark(DSparkConfig(shape, 1, DSPARK_SIZE, MASK_TOKEN, layers, weights, DSPARK_RANK), shared), tokens
    )


def _select(head: Head, tokens: Tensor) -> Head:
    """The head drafts `tokens`; its output weights start as the target's."""
    assert head.d2t is not None and head.lm_head is not None
    head.d2t.copy_(tokens - torch.arange(len(tokens)))
    with torch.no_grad():
        head.lm_head.weight.copy_(head.shared.lm_head[tokens.to(head.shared.lm_head.device)])
    return head


EAGLE = HeadNetwork(
    Eagle1,
    read_eagle1,
    write_eagle1,
    lambda shape, shared, _: Eagle1(Eagle1Config(shape), shared),
    lambda target, head: Eagle1Lesson(target, head, decaying(4, 0.8)),  # trains one step; evaluated as EAGLE-3 is
)
EAGLE3 = HeadNetwork(
    Eagle3,
    read_eagle3,
    write_eagle3,
    _first_eagle3,
    lambda target, head: Unrolled(target, head, decaying(4, 0.8)),
    CHECKS,
)
MTP = HeadNetwork(
    Mtp,
    read_mtp,
    write_mtp,
    lambda shape, shared, _: Mtp(MtpConfig(shape), shared),
    lambda target, head: Unrolled(target, head, decaying(3, 0.8)),
)
MEDUSA = HeadNetwork(
    Medusa,
    read_medusa,
    write_medusa,
    # Its blocks start at zero, so it starts with the target's own output.
    lambda _, shared, __: Medusa(MedusaConfig(MEDUSA_HEADS, shared=True), shared),
    lambda target, head: ParallelHeads(target, head, decaying(head.config.heads, 0.8)),
)
BLOCK = HeadNetwork(
    Block,
    read_block,
    write_block,
    _first_block,
    lambda target, head: Blocks(target, head, decaying(head.config.size - 1, math.exp(-1 / 4))),
)
DSPARK = HeadNetwork(
    DSpark,
    read_dspark,
    write_dspark,
    _first_dspark,
    lambda target, head: MarkovBlocks(target, head, decaying(head.config.size - 1, math.exp(-1 / 4))),
)
